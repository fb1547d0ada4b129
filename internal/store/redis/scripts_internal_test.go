package redis

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	luaNote     = regexp.MustCompile(`--[^\n]*`)
	luaFunction = regexp.MustCompile(`local function (\w+)`)
	luaCall     = regexp.MustCompile(`(^|[^\w.:])(\w+)\(`)
)

// TestScriptsAreWhole holds every script to having, before its call, each function of the files under lua/ that it calls: a server would
// miss it on the way that calls it only, which may be the rarest one.
func TestScriptsAreWhole(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	entries, err := os.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		for _, m := range luaFunction.FindAllStringSubmatch(luaText(strings.TrimSuffix(e.Name(), ".lua")), -1) {
			known[m[1]] = true
		}
	}
	c := Config{}.withDefaults()
	all := loadScripts(c.Limits, true, c.clock)
	checked := 0
	for _, s := range append(all.all(), &all.inspect, &all.repair, &all.inspectCapacity, &all.repairCapacity, &all.repairRoot) {
		defined := map[string]bool{}
		for i, line := range strings.Split(luaNote.ReplaceAllString(s.source, ""), "\n") {
			for _, m := range luaFunction.FindAllStringSubmatch(line, -1) {
				defined[m[1]] = true
			}
			for _, m := range luaCall.FindAllStringSubmatch(line, -1) {
				if known[m[2]] && !defined[m[2]] {
					t.Errorf("%s, line %d: %s is called, and not defined before", s.name, i+1, m[2])
				}
				checked++
			}
		}
	}
	if checked < 1000 {
		t.Fatalf("only %d calls were looked at", checked)
	}
}
