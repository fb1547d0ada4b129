package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// A listing passes over what it can't show, and leaves no trace of it in the index that it walks.
func TestListDropsWhatIsGone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	gone, broken, foreign, good := k.submit(), k.submit(), k.submit(), k.submit()
	k.del("c:" + gone)
	k.field(broken, "v", "x")
	k.field(foreign, "z", "2")
	if ids := k.list(store.ListRequest{}); len(ids) != 1 || ids[0] != good {
		t.Errorf("listed %v, want %s", ids, good)
	}
	left := redistest.Client(t).ZRange(t.Context(), k.key("all"), 0, -1).Val()
	if len(left) != 2 || redistest.Client(t).ZCard(t.Context(), k.key("malformed")).Val() != 1 {
		t.Errorf("%v are left of %s, %s, %s, %s", left, gone, broken, foreign, good)
	}
	k.wreck("of:story")
	if ids := k.list(store.ListRequest{Deployments: []string{"story"}}); len(ids) != 1 {
		t.Errorf("listed %v", ids)
	}
}

// TestBudgetList holds that a page costs the same however much is stored and wherever it stands, and looks at no more than ten
// times its limit. The long form stores a million.
func TestBudgetList(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: server.URL(), Prefix: "list"})
	k.server = server
	const limit = 20
	pages := func(stored int) {
		t.Helper()
		middle, err := k.store.List(t.Context(), store.ListRequest{Scope: store.Scope{All: true}, Limit: 1})
		k.ok(err)
		var oldest int64
		for r := (store.ListRequest{Scope: store.Scope{All: true}, Limit: 200}); ; {
			page, err := k.store.List(t.Context(), r)
			k.ok(err)
			r.After = page.Next
			if stored -= len(page.Executions); stored < 500 {
				oldest = page.Executions[0].CreatedAt
				break
			}
		}
		for name, ask := range map[string]store.ListRequest{
			"the newest":           {},
			"of a deployment":      {Deployments: []string{"story"}},
			"of an owner":          {Scope: store.Scope{Owner: "owner-1"}},
			"with a label":         {Labels: []string{"team=1"}},
			"between":              {CreatedBefore: (middle.Executions[0].CreatedAt + oldest) / 2},
			"near the end":         {CreatedBefore: oldest},
			"none that was looked": {Revision: "r9"},
		} {
			ask.Limit = limit
			if ask.Scope.Owner == "" {
				ask.Scope.All = true
			}
			before := k.commands()
			page, err := k.store.List(t.Context(), ask)
			k.ok(err)
			ran := k.commands() - before
			// One to load each member, and per script at most 20 to choose the index and to find the place in it.
			if most := page.Looked + 20*(1+page.Looked/100); page.Looked > 10*limit || ran > most {
				t.Errorf("%s: looked at %d with %d commands, at most %d with %d", name, page.Looked, ran, 10*limit, most)
			}
			if want := limit; name != "none that was looked" && len(page.Executions) != want {
				t.Errorf("%s: %d executions, want %d", name, len(page.Executions), want)
			}
		}
	}
	k.crowd(0, 1000)
	pages(1000)
	n := faultkit.Count(t, 20_000, 1_000_000)
	k.crowd(1000, n)
	pages(n)
}

// commands is how many commands the test's own server has run, those of scripts included.
func (k *kit) commands() (n int) {
	k.Helper()
	info, err := k.server.Client().InfoMap(k.Context(), "commandstats").Result()
	k.ok(err)
	for _, stats := range info["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		more, err := strconv.Atoi(calls)
		k.ok(err)
		n += more
	}
	return n
}

// crowd submits executions of ten owners and labels, eight at a time.
func (k *kit) crowd(from, to int) {
	k.Helper()
	var all sync.WaitGroup
	for part := range 8 {
		all.Go(func() {
			for i := from + part; i < to; i += 8 {
				s := k.submission()
				s.Owner, s.Labels = fmt.Sprintf("owner-%d", i%10), execution.Labels(fmt.Sprintf("team=%d", i%10))
				if _, err := k.store.Submit(k.Context(), s); err != nil {
					k.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
