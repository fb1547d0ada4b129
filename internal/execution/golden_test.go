package execution

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden histories")

// A history is a text file: commands stand at the beginning of a line, and indented below each is what it did. Times are
// relative to the first command; a line "+5s" lets time pass, "-5s" lets the clock step back. Words after a command are
// name=value; an owned command is its holder's unless it says otherwise.
func TestGoldenHistories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := retell(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if d := diff.Diff(string(want), got); d != "" && !*update {
				t.Errorf("history (-want +got):\n%s", d)
			}
		})
	}
}

// retell carries out the commands of a history and writes down anew what they do.
func retell(t *testing.T, history string) string {
	s := &story{t: t, now: born}
	for line := range strings.Lines(history) {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		s.out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.tell(words)
		}
	}
	return s.out.String()
}

type story struct {
	t       *testing.T
	now     Instant
	control Control
	steps   int
	out     bytes.Buffer
}

func (s *story) tell(words []string) {
	if d, err := time.ParseDuration(words[0]); err == nil {
		s.now += Instant(d.Microseconds())
		return
	}
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	if words[0] == "watch" {
		s.control.WatchedUntil = s.now.Millis() + s.duration(args, "for", time.Minute).Milliseconds()
		return
	}
	s.steps++
	s.carryOut(s.command(words[0], args))
}

func (s *story) carryOut(cmd Command) {
	p, err := Decide(s.control, cmd, s.now)
	if err != nil {
		s.writef("error %v", err)
		return
	}
	if p.Noop() {
		s.writef("nothing")
		return
	}
	before := s.control
	s.control = p.Apply(before, s.now)
	entries := p.LogEntries(before, s.control, s.now)
	if len(entries) > 0 {
		s.control.LogEpoch = cmp.Or(s.control.LogEpoch, NewLogEpoch(s.now))
	}
	s.guard(p.Guard)
	s.changes(before)
	for _, w := range p.Payloads {
		if w.Data == nil {
			s.writef("erase %s", w.Kind)
		} else {
			s.writef("store %s %s", w.Kind, w.Data)
		}
	}
	if p.DropProgress {
		s.writef("drop progress")
	}
	if e, ok := p.HistoryEntry(s.control); ok {
		s.writef("tell  %s by %s", strings.TrimSpace(e.Cause.Name()+" "+e.Code), strings.TrimSpace(string(e.Cause.By())+" "+e.Actor))
	}
	for _, e := range entries {
		s.writef("log   %s %s", e.Kind, strings.ReplaceAll(string(e.Data), "\n", " | "))
	}
}

func (s *story) writef(format string, args ...any) {
	fmt.Fprintf(&s.out, "    %s\n", strings.TrimRight(fmt.Sprintf(format, args...), " |"))
}

func (s *story) guard(g Guard) {
	switch g.Kind {
	case GuardOwned:
		s.writef("guard owned version=%d operation=%s", g.Version, g.Operation)
	case GuardExpired:
		s.writef("guard expired version=%d", g.Version)
	case GuardWait:
		s.writef("guard wait=%d", g.Sequence)
	case GuardOverdue:
		s.writef("guard overdue version=%d", g.Version)
	case GuardWaitExpired:
		s.writef("guard expired wait=%d", g.Sequence)
	}
}

// changes writes what the control looks like now where it looked otherwise before.
func (s *story) changes(before Control) {
	var changed []string
	old, now := reflect.ValueOf(before), reflect.ValueOf(s.control)
	for i := range now.NumField() {
		if name, v := now.Type().Field(i).Name, now.Field(i).Interface(); v != old.Field(i).Interface() {
			changed = append(changed, name+"="+relative(name, v))
		}
	}
	s.writef("set   %s", strings.Join(changed, " "))
}

func relative(name string, v any) string {
	n, _ := v.(int64)
	switch {
	case n == 0:
	case name == "Fence":
		return "@" + (time.Duration(n-int64(born)) * time.Microsecond).String()
	case strings.HasSuffix(name, "At"), strings.HasSuffix(name, "Until"), name == "Deadline":
		return "@" + (time.Duration(n-born.Millis()) * time.Millisecond).String()
	}
	return fmt.Sprintf("%v", v)
}

func (s *story) command(name string, args map[string]string) Command {
	lease := s.duration(args, "lease", 30*time.Second)
	switch name {
	case "submit":
		return Submit{ID: "x", Deployment: "d", Revision: "r", Owner: args["owner"], Priority: s.number(args, "priority", 0), Delay: s.duration(args, "delay", 0),
			RunAt: s.moment(args, "run_at"), Deadline: s.moment(args, "deadline"), QueueTTL: s.duration(args, "ttl", 0), Input: []byte("{}"),
			Budgets: Budgets{LostLeases: s.number(args, "lost", 3), Retries: s.number(args, "retries", 2), Claims: s.number(args, "claims", 20)}}
	case "claim":
		return Claim{Worker: cmp.Or(args["worker"], "w"), Token: cmp.Or(args["token"], fmt.Sprintf("t%d", s.steps)), Lease: lease}
	case "checkpoint":
		_, consumed := args["consumed"]
		return Checkpoint{Owned: s.owned(args), Data: []byte(cmp.Or(args["data"], "1")), Consumed: consumed, Lease: lease}
	case "report":
		return Report{s.owned(args)}
	case "suspend":
		return Suspend{Owned: s.owned(args), Checkpoint: []byte("2"), Wait: []byte(`{"kind":"ask"}`), Timeout: s.duration(args, "timeout", 0)}
	case "retry":
		return Retry{Owned: s.owned(args), Delay: s.duration(args, "delay", 0), Error: failure()}
	case "complete":
		return Complete{Owned: s.owned(args), Result: []byte(`"done"`)}
	case "fail":
		_, drop := args["drop"]
		return Fail{Owned: s.owned(args), Error: failure(), DropProgress: drop}
	case "release":
		return Release{s.owned(args)}
	}
	return s.free(name, args)
}

func (s *story) free(name string, args map[string]string) Command {
	sequence := s.number(args, "sequence", s.control.WaitSequence)
	switch name {
	case "cancel":
		return Cancel{Reason: args["reason"]}
	case "resume":
		return Resume{Sequence: sequence, Answer: []byte("true")}
	case "overdue":
		return Expire{}
	case "move":
		return Move{Revision: args["to"], Actor: args["by"]}
	case "withdraw":
		return Withdraw{Reason: args["reason"], Actor: args["by"]}
	case "recover":
		return Recover{Fence: s.control.Fence - s.number(args, "stale", 0)}
	case "expire":
		e := ExpireWait{Sequence: sequence}
		if d, ok := args["default"]; ok {
			e.Default = []byte(d)
		}
		return e
	}
	s.t.Fatalf("no command %q", name)
	return nil
}

func (s *story) owned(args map[string]string) Owned {
	c := s.control
	o := Owned{Ownership: Ownership{Worker: cmp.Or(args["worker"], c.Worker), Token: cmp.Or(args["token"], c.Token), Fence: c.Fence - s.number(args, "stale", 0),
		Margin: time.Second}, Operation: fmt.Sprintf("op%d", s.steps)}
	for i := range s.number(args, "progress", 0) {
		o.Progress = append(o.Progress, Event{Kind: "step", Message: fmt.Sprint(i), At: s.now.Millis()})
	}
	return o
}

func (s *story) number(args map[string]string, name string, otherwise int64) int64 {
	text, ok := args[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// moment is a time after the first command, in milliseconds.
func (s *story) moment(args map[string]string, name string) int64 {
	if _, ok := args[name]; !ok {
		return 0
	}
	return born.Millis() + s.duration(args, name, 0).Milliseconds()
}

func (s *story) duration(args map[string]string, name string, otherwise time.Duration) time.Duration {
	text, ok := args[name]
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
