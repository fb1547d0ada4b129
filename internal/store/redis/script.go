package redis

import (
	"crypto/sha1" // the name under which a server keeps a script, not a protection
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
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
}

// scripts are all that the store runs. Each file under lua/ says what it does.
type scripts struct {
	attach, submit, find, poll, apply, beat, cancel, resume, read, controls, overdue, remove, counts, check script
}

// loadScripts puts the scripts together from the files under lua/. clock is the text of clock.lua.
func loadScripts(l store.Limits, clock string) scripts {
	base := []string{bounds(l), clock, luaText("base")}
	reads := append(base[:len(base):len(base)], luaText("control"), luaText("view"))
	writes := append(base[:len(base):len(base)], luaText("control"), luaText("log"), luaText("index"), luaText("commit"), luaText("view"))
	upkeep := append(base[:len(base):len(base)], luaText("control"), luaText("index"))
	return scripts{
		attach:   newScript("attach"),
		submit:   newScript("submit", writes...),
		find:     newScript("find", reads...),
		poll:     newScript("poll", writes...),
		apply:    newScript("apply", writes...),
		beat:     newScript("beat", writes...),
		cancel:   newScript("cancel", writes...),
		resume:   newScript("resume", writes...),
		read:     newScript("read", reads...),
		controls: newScript("controls", reads...),
		overdue:  newScript("overdue", upkeep...),
		remove:   newScript("remove", upkeep...),
		counts:   newScript("counts", base...),
		check:    newScript("check", base...),
	}
}

func newScript(name string, parts ...string) script {
	source := strings.Join(append(parts[:len(parts):len(parts)], luaText(name)), "\n")
	sum := sha1.Sum([]byte(source))
	return script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// luaText is the text of a file under lua/.
func luaText(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("script %s is not embedded: %v", name, err)) // can't happen in a binary that passed one test
	}
	return string(text)
}

// bounds are the limits as scripts see them. They are part of the text: they change with the configuration only, and so
// cost no bytes of an exchange.
func bounds(l store.Limits) string {
	return fmt.Sprintf("local PROGRESS_EVENTS, HISTORY_CHUNKS, HISTORY_BYTES = %d, %d, %d\n"+
		"local TERMINAL_TTL, STREAM_TTL, WATCH_TTL, BACKSTOP = %d, %d, %d, %d",
		l.ProgressEvents, l.HistoryChunks, l.HistoryBytes, l.TerminalTTL.Milliseconds(), l.StreamTTL.Milliseconds(),
		l.WatchTTL.Milliseconds(), (l.TerminalTTL + backstop).Milliseconds())
}
