package redis

import (
	"crypto/sha1" //nolint:gosec // the name under which a server keeps a script, not a protection
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// backstop is how much longer than its retention an ended execution may stand, should maintenance not remove it.
const backstop = 24 * time.Hour

// script is one Lua script as the server knows it.
type script struct {
	name   string
	source string
	sha    string
	ran    *atomic.Bool // once: a server that does not know it now is another one, or was restarted
}

// scripts are all that the store runs. Each file under lua/ says what it does.
type scripts struct {
	attach, submit, find, poll, apply, beat, cancel, displace, resume, read, list, controls, overdue, remove, erase, counts, workers, check script

	// Those of doctor.
	inspect, repair, inspectCapacity, repairCapacity, repairRoot script
}

// loadScripts puts the scripts together from the files under lua/, each with the parts that it needs: the server makes their
// functions anew on each run, so what only few runs need is made lazily. With acked they write where they only repeat an answer
// that somebody waits to see acknowledged. clock is the text of clock.lua.
func loadScripts(l store.Limits, acked bool, clock string) scripts {
	base := bounds(l, acked) + "\n" + clock + "\n" + luaText("base")
	script := func(name string, parts ...[]string) script {
		return newScript(name, append([]string{base}, slices.Concat(parts...)...)...)
	}
	var (
		control = files("control")
		record  = files("record")
		indexes = files("batch", "index")
		queue   = files("rank", "enqueue")
		gone    = files("listing", "gone")
		// change carries plans out, of executions that stand already.
		change = slices.Concat(files("log", "history"), indexes, lazily("enqueue", "rank", "enqueue"), lazily("moved", "moved"),
			files("plan", "reindex"), lazily("write_progress", "write_progress"), files("commit"))
		rarely = lazily("record", "record")
	)
	return scripts{
		attach: newScript("attach"),
		submit: script("submit", control, indexes, files("listing"), queue, files("plan", "bound"), lazily("answer", "record", "view")),
		find:   script("find", control, record, files("bound", "view")),
		poll: script("poll", control, rarely, change, lazily("reject", "listing", "gone"), files("claims"), lazily("ripen", "rank", "ripen"),
			lazily("held", "solitary"), lazily("serve_solitary", "solitary")),
		apply:    script("apply", control, rarely, change),
		beat:     script("beat", control, files("batch")),
		cancel:   script("cancel", control, record, change, files("view")),
		displace: script("displace", control, change, gone),
		resume:   script("resume", control, record, change, files("view")),
		read:     script("read", control, record, files("history", "view")),
		list:     script("list", control, record, indexes, gone),
		controls: script("controls", control, record, files("view")),
		overdue:  script("overdue", control, record, indexes, gone),
		remove:   script("remove", control, indexes, gone),
		erase:    script("erase", control, indexes, gone),
		counts:   script("counts", files("rank")),
		workers:  script("workers"),
		check:    script("check"),

		inspect:         script("inspect", control, indexes, files("listing", "judge")),
		repair:          script("repair", control, files("log", "history"), indexes, queue, files("moved", "plan", "reindex"), gone, files("judge")),
		inspectCapacity: script("inspect_capacity", control),
		repairCapacity:  script("repair_capacity", control, indexes),
		repairRoot:      newScript("repair_root"),
	}
}

func newScript(name string, parts ...string) script {
	return scriptOf(name, nested(append(slices.Clip(parts), luaText(name))))
}

// nested puts each part into a function of its own within the one before it. The server makes all functions of a script anew on each run, and
// finds what they refer to by walking all variables of the functions around them that are still open: there are few where each part has
// its own, and a tail call closes those before it.
func nested(parts []string) string {
	return strings.Join(parts, "\nreturn (function()\n") + strings.Repeat("\nend)()", len(parts)-1)
}

func scriptOf(name, source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as the server computes it
	return script{name: name, source: source, sha: hex.EncodeToString(sum[:]), ran: new(atomic.Bool)}
}

// files are the texts of files under lua/.
func files(names ...string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = luaText(name)
	}
	return out
}

// lazily puts files under lua/ into a function of the name of one of theirs, which makes them when it is called, and calls that one.
func lazily(name string, parts ...string) []string {
	return []string{fmt.Sprintf("local function %[1]s(...)\n%[2]s\nreturn %[1]s(...)\nend", name, strings.Join(files(parts...), "\n"))}
}

// luaText is the text of a file under lua/.
func luaText(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("script %s is not embedded: %v", name, err)) // can't happen in a binary that passed one test
	}
	return string(text)
}

// bounds are the settings as scripts see them. They are part of the text: they change with the configuration only, and so
// cost no bytes of an exchange.
func bounds(l store.Limits, acked bool) string {
	return fmt.Sprintf("local ACKED = %t\nlocal PROGRESS_EVENTS, HISTORY_CHUNKS, HISTORY_BYTES = %d, %d, %d\n"+
		"local TERMINAL_TTL, STREAM_TTL, WATCH_TTL, BACKSTOP, WORKERS_KEPT = %d, %d, %d, '%d', %d",
		acked, l.ProgressEvents, l.HistoryChunks, l.HistoryBytes, l.TerminalTTL.Milliseconds(), l.StreamTTL.Milliseconds(),
		l.WatchTTL.Milliseconds(), (l.TerminalTTL + backstop).Milliseconds(), store.WorkersKept.Milliseconds())
}

// Digests are the names of the scripts of a store that is configured so, but for those of doctor, by what servers know them as.
func Digests(c Config) map[string]string {
	c = c.withDefaults()
	all := loadScripts(c.Limits, c.Ack.waits(), c.clock)
	names := map[string]string{}
	for _, one := range []script{all.attach, all.submit, all.find, all.poll, all.apply, all.beat, all.cancel, all.resume, all.read, all.list,
		all.controls, all.overdue, all.remove, all.erase, all.counts, all.check} {
		names[one.sha] = one.name
	}
	return names
}
