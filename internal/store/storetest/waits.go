package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func waitTests() []test {
	return []test{
		{name: "a wait that expires takes its default answer", run: waitDefault},
		{name: "null is a default answer", run: waitNull},
		{name: "without a default answer the execution fails", run: waitFails},
		{name: "a wait without a deadline never expires", run: waitForever},
		{name: "a wait does not expire early, nor after its answer", run: waitAnswered},
		{name: "a later wait has a deadline of its own", run: waitSecond},
	}
}

func waitDefault(k *kit) {
	c := k.suspend(k.start(), time.Hour, execution.Wait{Kind: "k", Default: []byte(`{"a":[1.0,{}]}`)})
	k.same("deadline", k.now().Millis()+time.Hour.Milliseconds(), c.WaitUntil)
	k.Advance(time.Hour)
	want := k.expected(c, execution.ExpireWait{Sequence: c.WaitSequence, Default: []byte(`1`)}, k.now())
	k.same("maintained", store.Maintained{Defaulted: 1}, k.maintain())
	k.shows("record", store.Record{Control: want, Now: k.now()}, k.read(c.ID))
	k.same("answer", `{"a":[1.0,{}]}`, string(k.claim().Answer))
}

func waitNull(k *kit) {
	k.suspend(k.start(), time.Hour, execution.Wait{Default: []byte(`null`)})
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{Defaulted: 1}, k.maintain())
	k.same("answer", "null", string(k.claim().Answer))
}

func waitFails(k *kit) {
	c := k.suspend(k.start(), time.Hour, execution.Wait{Kind: "k"})
	k.Advance(2 * time.Hour)
	want := k.expected(c, execution.ExpireWait{Sequence: c.WaitSequence}, k.now())
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	r := k.read(c.ID)
	k.shows("record", store.Record{Control: want, Error: r.Error, Now: k.now()}, r)
	f, err := execution.DecodeFailure(r.Error)
	k.ok(err)
	k.same("code", execution.FailureWaitExpired, f.Code)
	k.same("unfinished", int64(0), k.count().Nonterminal)
}

func waitForever(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{Default: []byte("1")})
	k.Advance(10 * 365 * 24 * time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("control", c, k.read(c.ID).Control)
}

func waitAnswered(k *kit) {
	c := k.suspend(k.start(), time.Hour, execution.Wait{Default: []byte("1")})
	k.Advance(time.Hour - time.Millisecond)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.resume(c, "2")
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("answer", "2", string(k.claim().Answer))
}

func waitSecond(k *kit) {
	c := k.suspend(k.start(), time.Minute, execution.Wait{})
	k.resume(c, "1")
	c = k.suspend(k.claim().Control, time.Hour, execution.Wait{})
	k.Advance(time.Minute)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("control", c, k.read(c.ID).Control)
	k.resume(c, "1")
	c = k.suspend(k.claim().Control, 0, execution.Wait{})
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("control", c, k.read(c.ID).Control)
}
