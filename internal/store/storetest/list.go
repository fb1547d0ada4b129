package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func listTests() []test {
	return []test{
		{name: "each filter lets through what fits it", run: listFilters},
		{name: "pages of any size show everything once, the newest first", run: listPages},
		{name: "what comes meanwhile moves nothing", run: listInserts},
		{name: "what goes meanwhile moves nothing else", run: listRemovals, limits: store.Limits{TerminalTTL: time.Hour}},
		{name: "times bound a listing", run: listTimes},
		{name: "a status is where an execution stands now", run: listStatus},
		{name: "a page that finds little is short and goes on", run: listSparse},
	}
}

// walk reads all pages and holds each against its bounds.
func (k *kit) walk(r store.ListRequest) []string {
	k.Helper()
	var ids []string
	for range 10_000 {
		page, err := k.Store.List(k.ctx, r)
		k.ok(err)
		if len(page.Executions) > r.Limit || page.Looked > r.Look(k.Store.Partitions()) || page.Now != k.now() {
			k.Fatalf("%d executions of %d members at %d for %+v", len(page.Executions), page.Looked, page.Now, r)
		}
		for _, c := range page.Executions {
			ids = append(ids, c.ID)
		}
		if page.Next == (store.Place{}) {
			return ids
		}
		if r.After != (store.Place{}) && page.Next.Older(r.After) <= 0 {
			k.Fatalf("page after %v goes on after %v", r.After, page.Next)
		}
		r.After = page.Next
	}
	k.Fatal("the listing has no end")
	return nil
}

// newest are ids in the order of a listing.
func newest(controls ...execution.Control) []string {
	controls = slices.Clone(controls)
	slices.SortFunc(controls, func(a, b execution.Control) int { return store.PlaceOf(a).Older(store.PlaceOf(b)) })
	ids := make([]string, len(controls))
	for i, c := range controls {
		ids[i] = c.ID
	}
	return ids
}

func listFilters(k *kit) {
	var all []execution.Control
	for _, s := range []execution.Submit{
		{Deployment: "a", Revision: "r1", Owner: "ann", Labels: "team=x"},
		{Deployment: "a", Revision: "r2", Labels: "order=1\nteam=x"},
		{Deployment: "b", Revision: "r1", Owner: "bob", Labels: "order=1"},
		{Deployment: "b", Revision: "r2", Owner: "ann", Labels: execution.Labels("long=" + strings.Repeat("v", 63) + "\nteam=xx")},
	} {
		s.ID, s.Budgets, s.Input = k.Store.NewID(store.Key{}), execution.DefaultBudgets(), []byte("1")
		all = append(all, k.admit(store.Submission{Submit: s}))
		k.Advance(time.Millisecond)
	}
	is := func(which ...int) []string {
		var out []execution.Control
		for _, i := range which {
			out = append(out, all[i])
		}
		return newest(out...)
	}
	for _, test := range []struct {
		ask  store.ListRequest
		want []string
	}{
		{store.ListRequest{Scope: everyone}, is(0, 1, 2, 3)},
		{store.ListRequest{Scope: store.Scope{Owner: "ann"}}, is(0, 3)},
		{store.ListRequest{Scope: store.Scope{Owner: "nobody"}}, is()},
		{store.ListRequest{}, is(1)}, // of no owner
		{store.ListRequest{Scope: everyone, Deployments: []string{"a"}}, is(0, 1)},
		{store.ListRequest{Scope: everyone, Deployments: []string{"a", "b", "c"}}, is(0, 1, 2, 3)},
		{store.ListRequest{Scope: everyone, Deployments: []string{"c"}}, is()},
		{store.ListRequest{Scope: everyone, Revision: "r2"}, is(1, 3)},
		{store.ListRequest{Scope: everyone, Deployments: []string{"b"}, Revision: "r2"}, is(3)},
		{store.ListRequest{Scope: everyone, Labels: []string{"team=x"}}, is(0, 1)},
		{store.ListRequest{Scope: everyone, Labels: []string{"order=1", "team=x"}}, is(1)},
		{store.ListRequest{Scope: everyone, Labels: []string{"long=" + strings.Repeat("v", 63)}}, is(3)},
		{store.ListRequest{Scope: store.Scope{Owner: "bob"}, Labels: []string{"team=x"}}, is()},
		{store.ListRequest{Scope: everyone, Statuses: []execution.Status{execution.Running}}, is()},
		{store.ListRequest{Scope: everyone, Statuses: []execution.Status{execution.Running, execution.Queued}}, is(0, 1, 2, 3)},
	} {
		test.ask.Limit = 3
		k.same(fmt.Sprintf("%+v", test.ask), test.want, k.walk(test.ask), cmpopts.EquateEmpty())
	}
	page, err := k.Store.List(k.ctx, store.ListRequest{Scope: everyone, Labels: []string{"order=1"}, Limit: 1})
	k.ok(err)
	k.same("control", []execution.Control{all[2]}, page.Executions)
}

func listPages(k *kit) {
	var all []execution.Control
	for i := range 130 {
		all = append(all, k.submit())
		if i%7 == 0 { // the others share their millisecond
			k.Advance(time.Millisecond)
		}
	}
	want := newest(all...)
	for _, limit := range []int{1, 2, 7, 50, 100, 130, 200} {
		k.same(fmt.Sprintf("pages of %d", limit), want, k.walk(store.ListRequest{Scope: everyone, Limit: limit}))
	}
	k.same("of a deployment", want, k.walk(store.ListRequest{Scope: everyone, Deployments: []string{"story"}, Limit: 9}))
}

func listInserts(k *kit) {
	var all []execution.Control
	for range 40 {
		all = append(all, k.submit())
		k.Advance(time.Millisecond)
	}
	want, r := newest(all...), store.ListRequest{Scope: everyone, Limit: 3}
	for at := 0; at < len(want); {
		page, err := k.Store.List(k.ctx, r)
		k.ok(err)
		for _, c := range page.Executions {
			k.same("next", want[at], c.ID)
			at++
		}
		k.submit()
		k.Advance(time.Millisecond)
		r.After = page.Next
	}
}

func listRemovals(k *kit) {
	var all []execution.Control
	for range 30 {
		c := k.submit()
		all = append(all, c)
		k.cancel(c.ID)
		k.Advance(time.Minute)
	}
	want := newest(all...)
	first, err := k.Store.List(k.ctx, store.ListRequest{Scope: everyone, Limit: 10})
	k.ok(err)
	k.same("shown", want[:10], newest(first.Executions...))
	k.Advance(time.Hour - 15*time.Minute) // the oldest half goes
	m := k.maintain()
	rest := k.walk(store.ListRequest{Scope: everyone, Limit: 4, After: first.Next})
	k.same("the rest", want[10:30-m.Removed], rest)
	if m.Removed < 10 || m.Removed > 19 {
		k.Errorf("%d were removed", m.Removed)
	}
	k.Advance(time.Hour)
	k.maintain()
	k.same("after all", []string(nil), k.walk(store.ListRequest{Scope: everyone, Limit: 4}))
}

func listTimes(k *kit) {
	var all []execution.Control
	for range 10 {
		all = append(all, k.submit())
		k.Advance(time.Millisecond)
	}
	from, before := all[2].CreatedAt, all[7].CreatedAt
	for _, limit := range []int{2, 100} {
		k.same("between", newest(all[2:7]...), k.walk(store.ListRequest{Scope: everyone, CreatedFrom: from, CreatedBefore: before, Limit: limit}))
		k.same("since", newest(all[2:]...), k.walk(store.ListRequest{Scope: everyone, CreatedFrom: from, Limit: limit}))
		k.same("until", newest(all[:7]...), k.walk(store.ListRequest{Scope: everyone, CreatedBefore: before, Limit: limit}))
	}
}

func listStatus(k *kit) {
	of := func(status execution.Status, limit int) []string {
		return k.walk(store.ListRequest{Scope: everyone, Statuses: []execution.Status{status}, Limit: limit})
	}
	k.submit()
	k.cancel(k.claim().Control.ID)
	c := k.start()
	want := map[execution.Status]execution.Control{execution.Running: c}
	want[execution.Waiting] = k.suspend(k.start(), 0, execution.Wait{})
	c = k.start()
	want[execution.Completed] = k.do(c, complete(k, c))
	c = k.start()
	want[execution.Failed] = k.do(c, execution.Fail{Owned: k.owned(c), Error: broken})
	want[execution.Canceled] = k.cancel(k.submit().ID).Control
	want[execution.Queued] = k.submit()
	for status, c := range want {
		got := of(status, 5)
		if status == execution.Running {
			k.same("running", 2, len(got)) // one is asked to stop
			continue
		}
		k.same(string(status), []string{c.ID}, got)
	}
	k.cancel(want[execution.Waiting].ID)
	k.same("waiting", []string(nil), of(execution.Waiting, 5))
	k.same("canceled", 2, len(of(execution.Canceled, 1)))
}

func listSparse(k *kit) {
	last := k.submit()
	for range 120 {
		k.Advance(time.Millisecond)
		k.submit()
	}
	k.rev.Revision = "r2"
	first := k.submit()
	r := store.ListRequest{Scope: everyone, Statuses: []execution.Status{execution.Completed, execution.Failed}, Limit: 2}
	page, err := k.Store.List(k.ctx, r)
	k.ok(err)
	if len(page.Executions) != 0 || page.Looked == 0 || page.Next.CreatedAt == 0 || len(page.Next.ID) > 12 {
		k.Errorf("page %+v", page)
	}
	k.same("none", []string(nil), k.walk(r))
	k.same("of a revision", []string{first.ID}, k.walk(store.ListRequest{Scope: everyone, Revision: "r2", Limit: 1}))
	all := k.walk(store.ListRequest{Scope: everyone, Limit: 7})
	k.same("oldest", last.ID, all[len(all)-1])
}
