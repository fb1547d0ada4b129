package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func retryTests() []test {
	return []test{
		{name: "a retry waits for its delay and shows its error", run: retryDelay},
		{name: "a retry without delay is due at once", run: retryNow},
		{name: "success leaves no error behind", run: retrySuccess},
		{name: "the retry over the budget fails with the last error", run: retryExhausted},
		{name: "a release is due at once and costs nothing", run: retryRelease},
	}
}

func retryDelay(k *kit) {
	c := k.start()
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	c = k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Minute, Error: broken})
	k.shows("record", store.Record{Control: c, Error: broken.Encode(), Now: k.now()}, k.read(c.ID))
	p := k.poll(k.request(1))
	k.same("reply", store.Polled{NextDue: k.now().Millis() + 60_000, Now: k.now()}, p)
	k.Advance(time.Minute)
	got := k.claim()
	k.same("checkpoint", "1", string(got.Checkpoint))
	k.same("attempt", int64(2), got.Control.Attempt)
	k.same("retries", int64(1), got.Control.Retries)
}

func retryNow(k *kit) {
	c := k.start()
	c = k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	k.same("available at", int64(0), c.AvailableAt)
	k.same("claimed", c.ID, k.claim().Control.ID)
}

func retrySuccess(k *kit) {
	c := k.start()
	k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	c = k.claim().Control
	c = k.do(c, execution.Complete{Owned: k.owned(c), Result: []byte("1")})
	k.shows("record", store.Record{Control: c, Result: []byte("1"), Now: k.now()}, k.read(c.ID))
}

func retryExhausted(k *kit) {
	s := k.submission()
	s.Budgets.Retries = 1
	k.admit(s)
	c := k.claim().Control
	k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	c = k.claim().Control
	c = k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Hour, Error: broken})
	k.same("status", execution.Failed, c.Status)
	want := execution.Failure{Type: "Broken", Code: execution.FailureRetriesExhausted, Message: "It broke."}
	k.shows("record", store.Record{Control: c, Error: want.Encode(), Now: k.now()}, k.read(c.ID))
}

func retryRelease(k *kit) {
	c := k.start()
	c = k.do(c, execution.Release{Owned: k.owned(c)})
	k.same("lost and retries", [2]int64{0, 0}, [2]int64{c.LostLeases, c.Retries})
	k.same("leases", int64(0), k.leases())
	k.same("attempt", int64(2), k.claim().Control.Attempt)
}
