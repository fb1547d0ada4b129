package faultkit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// client sends nothing twice.
func client(t *testing.T, url string) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.Protocol, o.DisableIdentity = -1, 2, true
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Each point breaks the command that it is meant for, in a pipeline too: what comes before it is answered, and the server has
// seen what it should have.
func TestPoints(t *testing.T) {
	t.Parallel()
	for point, seen := range map[faultkit.Point]string{faultkit.Before: "1", faultkit.After: "2", faultkit.Within: "2"} {
		p := faultkit.NewProxy(t, redistest.URL(t), nil)
		c, key := client(t, p.URL()), redistest.Prefix(t)+"n"
		p.Break(faultkit.Nth(1, point, "INCR"))
		conn, err := net.Dial("tcp", c.Options().Addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, strings.Repeat(fmt.Sprintf("*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", len(key), key), 2))
		if err != nil {
			t.Fatal(err)
		}
		want := map[faultkit.Point]string{faultkit.Within: ":1\r\n:2"}[point]
		if want == "" {
			want = ":1\r\n"
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != want {
			t.Errorf("point %d: answered %q, %v; want %q", point, got, err, want)
		}
		_ = conn.Close() // it was cut
		if got := redistest.Client(t).Get(t.Context(), key).Val(); got != seen || p.Broken("INCR") != 1 || p.Broken() != 1 {
			t.Errorf("point %d: the server counts %s, want %s; %d were broken", point, got, seen, p.Broken())
		}
		if n := c.Incr(t.Context(), key); n.Err() != nil {
			t.Error(n.Err())
		}
	}
}

// What is held arrives after what was sent later.
func TestHold(t *testing.T) {
	t.Parallel()
	p := faultkit.NewProxy(t, redistest.URL(t), nil)
	o, err := goredis.ParseURL(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.ReadTimeout, o.Protocol = -1, 50*time.Millisecond, 2
	c, list := goredis.NewClient(o), redistest.Prefix(t)+"l"
	defer func() { _ = c.Close() }()
	p.Break(faultkit.Nth(0, faultkit.Hold, "RPUSH"))
	if c.RPush(t.Context(), list, "held").Err() == nil {
		t.Fatal("what was held was answered")
	}
	o.ReadTimeout = 0
	direct := redistest.Client(t)
	if err := direct.RPush(t.Context(), list, "later").Err(); err != nil {
		t.Fatal(err)
	}
	if n := p.Deliver(); n != 1 {
		t.Errorf("%d were delivered, want 1", n)
	}
	if got := direct.LRange(t.Context(), list, 0, -1).Val(); !slices.Equal(got, []string{"later", "held"}) {
		t.Errorf("the server has %v", got)
	}
}

// A seed breaks the same commands each time.
func TestRate(t *testing.T) {
	t.Parallel()
	var runs [2][]faultkit.Point
	for i := range runs {
		plan := faultkit.Rate(7, 0.2, faultkit.Cuts(), "a")
		for range 1000 {
			runs[i] = append(runs[i], plan(faultkit.Command{Name: "a"}))
			if plan(faultkit.Command{Name: "b"}) != faultkit.Pass {
				t.Fatal("a command without the name is broken")
			}
		}
	}
	broken := len(slices.DeleteFunc(slices.Clone(runs[0]), func(p faultkit.Point) bool { return p == faultkit.Pass }))
	if !slices.Equal(runs[0], runs[1]) || broken < 150 || broken > 250 {
		t.Errorf("%d of 1,000 are broken", broken)
	}
}

// The names of scripts are known by digest and by text.
func TestScriptNames(t *testing.T) {
	t.Parallel()
	const text = "return 1"
	digest := goredis.NewScript(text).Hash()
	p := faultkit.NewProxy(t, redistest.URL(t), map[string]string{digest: "one"})
	c := client(t, p.URL())
	for _, call := range []func() error{
		func() error { return c.Eval(t.Context(), text, nil).Err() }, func() error { return c.EvalSha(t.Context(), digest, nil).Err() },
	} {
		p.Break(faultkit.Nth(0, faultkit.After, "one"))
		if call() == nil {
			t.Error("the script was answered")
		}
	}
}

// The network does what it is told, and heals.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := faultkit.NewNetwork(t, redistest.URL(t))
	c := client(t, n.URL())
	c.Options().ReadTimeout = 100 * time.Millisecond
	ping := func() error { return c.Ping(t.Context()).Err() }
	for name, spoil := range map[string]func(){"blackhole": n.Blackhole, "reset": n.Reset, "limit": func() { n.Limit(3) }, "down": n.Down} {
		if err := ping(); err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		spoil()
		if ping() == nil {
			t.Errorf("%s changes nothing", name)
		}
		if name == "down" {
			n.Up()
		}
		n.Heal()
		for ping() != nil { // connections that were spoiled go one by one
			continue
		}
	}
	n.Latency(50*time.Millisecond, 0)
	n.Bandwidth(1000)
	if began := time.Now(); ping() != nil || time.Since(began) < 50*time.Millisecond {
		t.Error("the answer is not delayed")
	}
}

// A server's time, and the end of its keys, follow the clock.
func TestClock(t *testing.T) {
	t.Parallel()
	clock := faultkit.NewClock(t)
	server := redistest.Private(t, redistest.Options{Env: clock.Env()})
	c := server.Client()
	if err := c.Set(t.Context(), "short", 1, 5*time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{0, 10 * time.Minute, -20 * time.Minute} {
		before := c.Time(t.Context()).Val()
		clock.Step(by)
		if d := c.Time(t.Context()).Val().Sub(before) - by; d < 0 || d > time.Minute {
			t.Errorf("a step of %v is off by %v", by, d)
		}
		if gone := errors.Is(c.Get(t.Context(), "short").Err(), goredis.Nil); gone != (by != 0) {
			t.Errorf("after a step of %v: the key is gone: %v", by, gone)
		}
	}
}

// A process is killed and frozen as often as the schedule says, and is there at the end.
func TestHarass(t *testing.T) {
	t.Parallel()
	s := faultkit.Schedule{Seed: 3, Count: 8, Gap: time.Millisecond, Freeze: time.Millisecond}
	count := map[faultkit.Happening]int{}
	last := 0
	for e := range faultkit.Harass(t, s, func() (*exec.Cmd, error) {
		cmd := exec.Command("sleep", "600")
		err := cmd.Start()
		return cmd, err
	}) {
		count[e.Happening]++
		if e.Happening == faultkit.Started && e.PID == last {
			t.Errorf("process %d is not a new one", e.PID)
		}
		last = e.PID
	}
	k, f := count[faultkit.Killed], count[faultkit.Frozen]
	if k == 0 || f == 0 || k+f != s.Count || count[faultkit.Resumed] != f || count[faultkit.Started] != k+1 {
		t.Errorf("happened: %v", count)
	}
}

// A server is spoiled and healed again.
func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{AppendFsync: "always"})
	r, c := faultkit.NewRedis(t, server), client(t, server.URL())
	set := func(key string) error { return c.Set(t.Context(), key, 1, 0).Err() }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(set("kept"))
	r.Full(true)
	if set("more") == nil {
		t.Error("there is room")
	}
	r.Full(false)
	must(set("more"))
	r.Delete("more")
	r.WrongType("kept")
	if kind := server.Client().Type(t.Context(), "kept").Val(); kind != "stream" {
		t.Errorf("the key is a %s", kind)
	}
	must(server.Client().ScriptLoad(t.Context(), "return 1").Err())
	r.ForgetScripts()
	if server.Client().EvalSha(t.Context(), goredis.NewScript("return 1").Hash(), nil).Err() == nil {
		t.Error("the script is known")
	}
	id := c.ClientID(t.Context()).Val()
	r.KillClients()
	for set("again") != nil {
		continue // the client may find out by this
	}
	if c.ClientID(t.Context()).Val() == id {
		t.Error("the connection is still there")
	}
	r.Restart()
	if n := server.Client().Exists(t.Context(), "kept", "again", "more").Val(); n != 2 {
		t.Errorf("%d keys are kept, want 2", n)
	}
	began := time.Now()
	r.Pause(100*time.Millisecond, true)
	for set("kept") != nil {
		continue
	}
	if d := time.Since(began); d < 90*time.Millisecond {
		t.Errorf("paused for %v", d)
	}
}

// Counts have two forms.
func TestCount(t *testing.T) {
	for form, want := range map[string]int{"": 2, "short": 2, "long": 20} {
		t.Setenv(faultkit.EnvReliability, form)
		if got := faultkit.Count(t, 2, 20); got != want {
			t.Errorf("%s: %d, want %d", fmt.Sprintf("%q", form), got, want)
		}
	}
}
