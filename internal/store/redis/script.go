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

// loadScripts puts the scripts together from the files under lua/, each with the parts that it needs: the server makes them
// anew on each run. With acked they write where they only repeat an answer that somebody waits to see acknowledged. clock is
// the text of clock.lua.
func loadScripts(l store.Limits, acked bool, clock string) scripts {
	with := func(parts ...string) []string {
		out := []string{bounds(l, acked), clock, luaText("base")}
		for _, name := range parts {
			out = append(out, luaText(name))
		}
		return out
	}
	return scripts{
		attach:   newScript("attach"),
		submit:   newScript("submit", with("control", "log", "history", "index", "commit", "view")...),
		find:     newScript("find", with("control", "view")...),
		poll:     newScript("poll", with("control", "log", "history", "index", "gone", "commit")...),
		apply:    newScript("apply", with("control", "log", "history", "index", "commit")...),
		beat:     newScript("beat", with("control", "index")...),
		cancel:   newScript("cancel", with("control", "log", "history", "index", "commit", "view")...),
		displace: newScript("displace", with("control", "log", "history", "index", "gone", "commit")...),
		resume:   newScript("resume", with("control", "log", "history", "index", "commit", "view")...),
		read:     newScript("read", with("control", "history", "view")...),
		list:     newScript("list", with("control", "index", "gone")...),
		controls: newScript("controls", with("control", "view")...),
		overdue:  newScript("overdue", with("control", "index", "gone")...),
		remove:   newScript("remove", with("control", "index", "gone")...),
		erase:    newScript("erase", with("control", "index", "gone")...),
		counts:   newScript("counts", with()...),
		workers:  newScript("workers", with()...),
		check:    newScript("check", with()...),

		inspect:         newScript("inspect", with("control", "index", "judge")...),
		repair:          newScript("repair", with("control", "log", "history", "index", "gone", "judge")...),
		inspectCapacity: newScript("inspect_capacity", with("control")...),
		repairCapacity:  newScript("repair_capacity", with("control", "index")...),
		repairRoot:      newScript("repair_root"),
	}
}

func newScript(name string, parts ...string) script {
	return scriptOf(name, strings.Join(append(slices.Clip(parts), luaText(name)), "\n"))
}

func scriptOf(name, source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as the server computes it
	return script{name: name, source: source, sha: hex.EncodeToString(sum[:]), ran: new(atomic.Bool)}
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
