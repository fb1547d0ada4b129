package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/store/faultstore"
)

func TestPreferences(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for text, want := range map[string]preferences{
		"": {}, "wait=10": {waits: true, wait: 10 * second}, "respond-async": {async: true},
		"respond-async, wait=10": {async: true, waits: true, wait: 10 * second}, `Wait = "7" ; x=y, RESPOND-ASYNC;a`: {async: true, waits: true, wait: 7 * second},
		"wait=0": {waits: true}, "wait=61": {waits: true, wait: 60 * second}, "wait=2, wait=3": {waits: true, wait: 2 * second},
		"wait=5|wait=6": {waits: true, wait: 5 * second}, "return=minimal|wait=5": {waits: true, wait: 5 * second},
		"wait": {}, "wait=": {}, "wait=-1": {}, "wait=1.5": {}, "wait=99999999999999999999": {}, "waiting=1": {}, "handling=lenient": {},
	} {
		header := http.Header{}
		for line := range strings.SplitSeq(text, "|") {
			header.Add("Prefer", line)
		}
		if got := preferencesOf(header); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// Who prefers to wait gets the outcome in the answer, by one more exchange and no polling, and else what everybody gets.
func TestSubmitAndWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		submit := func(deployment, body string, headers ...string) later {
			return r.ask("POST", submitPath(deployment), body, headers...)
		}
		a := submit("echo", `{"input":{"n":1e400}}`, "Prefer: wait=10").soon(r)
		if a.status != 200 || a.header.Get("Preference-Applied") != "wait=10" || !strings.Contains(a.body, `"result":{"n":1e400}`) ||
			a.header.Get("Location") != r.projection(a).Links.Self {
			r.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		if a := submit("echo", `{"input":1}`).soon(r); a.status != 202 || a.header.Get("Preference-Applied") != "" {
			r.Errorf("without a preference: %d %v", a.status, a.header)
		}
		if a := submit("hold", `{"input":1}`, "Prefer: respond-async").soon(r); a.status != 202 || a.header.Get("Preference-Applied") != "respond-async" {
			r.Errorf("async: %d %v", a.status, a.header)
		}
		<-r.held
		began := time.Now()
		a = r.call("POST", submitPath("hold"), `{"input":1}`, "Prefer: respond-async, wait=20", "Idempotency-Key: k")
		if took := time.Since(began); a.status != 202 || took != 20*time.Second || a.header.Get("Preference-Applied") != "wait=20, respond-async" ||
			!strings.Contains(a.body, `"running"`) {
			r.Errorf("%d %v %s after %v", a.status, a.header, a.body, took)
		}
		<-r.held
		again := submit("hold", `{"input":1}`, "Prefer: wait=60", "Idempotency-Key: k")
		again.kept(r)
		r.release <- struct{}{}
		r.release <- struct{}{}
		if a := again.soon(r); a.status != 200 || a.header.Get("Idempotent-Replay") != "true" || !strings.Contains(a.body, `"completed"`) {
			r.Errorf("the replay: %d %v %s", a.status, a.header, a.body)
		}
		if a := submit("hold", `{"input":1}`, "Prefer: wait=0", "Idempotency-Key: k").soon(r); a.status != 200 {
			r.Errorf("of what has ended: %d", a.status)
		}
		if a := submit("fail", `{"input":1}`, "Prefer: wait=5").soon(r); a.status != 200 || !strings.Contains(a.body, `"failed"`) {
			r.Errorf("failed: %d %s", a.status, a.body)
		}
		if a := submit("typed", `{"input":1}`, "Prefer: wait=5").soon(r); a.status != 422 || a.header.Get("Preference-Applied") != "" {
			r.Errorf("refused: %d %s", a.status, a.body)
		}
	})
}

// That its outcome can't be waited for takes nothing from a submission that was admitted.
func TestSubmitWithoutRoomToWait(t *testing.T) {
	t.Parallel()
	for name, prevent := range map[string]func(r *rig) func(){
		"as many viewers as may be": func(r *rig) func() {
			stream := r.open("GET", r.running()+"/stream", "")
			return func() { stream.Body.Close() }
		},
		"the store does not answer": func(r *rig) func() {
			r.store.Inject(faultstore.Read, faultstore.Fault{Before: true})
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(s *setup) { s.api.Limits.Viewers = 1 })
			defer prevent(r)()
			a := r.call("POST", submitPath("hold"), `{"input":1}`, "Prefer: wait=60")
			if a.status != 202 || a.header.Get("Preference-Applied") != "" || !strings.Contains(a.body, `"queued"`) {
				t.Errorf("%d %v %s", a.status, a.header, a.body)
			}
		})
	}
}

// The time that a body has to arrive says nothing about how long its sender may wait then.
func TestWaitIsNotHurried(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.api.BodyTimeout = 50 * time.Millisecond })
	a := r.call("POST", submitPath("drip"), `{"input":1}`, "Prefer: wait=60") // it takes a second
	if a.status != 200 || !strings.Contains(a.body, `"completed"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
