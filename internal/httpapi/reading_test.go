package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
)

// bubble runs a test in virtual time, on requests that come without a network.
func bubble(t *testing.T, test func(r *rig), changes ...func(*setup)) {
	t.Helper()
	if _, err := keeper(); err != nil { // what is made once must not belong to one bubble
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		test(start(t, append(changes, func(s *setup) { s.direct = true })...))
	})
}

// later is an answer that is waited for.
type later chan reply

func (r *rig) ask(method, path, body string, headers ...string) later {
	answer := make(later, 1)
	go func() { answer <- r.call(method, path, body, headers...) }()
	synctest.Wait()
	return answer
}

// kept fails the test where the answer is there already.
func (l later) kept(r *rig) {
	r.Helper()
	synctest.Wait()
	select {
	case a := <-l:
		r.Fatalf("answered with %d %s", a.status, a.body)
	default:
	}
}

// soon is the answer, for which no more than a moment may go by.
func (l later) soon(r *rig) reply {
	r.Helper()
	select {
	case a := <-l:
		return a
	case <-time.After(100 * time.Millisecond):
		r.Fatal("no answer")
		return reply{}
	}
}

// A tag names the bytes of one projection: it holds while nothing changes.
func TestTags(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.waiting("true")
	first := r.call("GET", path, "")
	tag := first.header.Get("ETag")
	if !strings.HasPrefix(tag, `"3-`) || first.header.Get("Cache-Control") != "no-cache, private" {
		t.Fatalf("%v", first.header)
	}
	for known, status := range map[string]int{
		tag: 304, "W/" + tag: 304, "*": 304, `"x", ` + tag: 304, `"x",W/` + tag + `,"y"`: 304,
		`"x"`: 200, strings.Trim(tag, `"`): 200, tag[:len(tag)-2] + `"`: 200, "": 200, `"3"`: 200,
	} {
		a := r.call("GET", path, "", "If-None-Match: "+known)
		if a.status != status || a.header.Get("ETag") != tag || (a.body == "") != (status == 304) {
			t.Errorf("%s: %d %v %s", known, a.status, a.header, a.body)
		}
	}
	if a := r.call("HEAD", path, "", "If-None-Match: "+tag); a.status != 304 || a.header.Get("ETag") != tag {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
	r.call("POST", path+"/cancel", "")
	if a := r.call("GET", path, "", "If-None-Match: "+tag); a.status != 200 || a.header.Get("ETag") == tag {
		t.Errorf("changed: %d %v", a.status, a.header)
	}
}

// The same version with another content has another tag: what a loss of data took may be written anew under it.
func TestTagsSurviveLoss(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, change := range []func(*store.Record){
		func(*store.Record) {}, func(r *store.Record) { r.Control.CreatedAt++ }, func(r *store.Record) { r.Control.UpdatedAt++ },
		func(r *store.Record) { r.Control.ID = "another" }, func(r *store.Record) { r.Result = []byte("2") },
		func(r *store.Record) { r.Progress = r.Progress[1:] }, func(r *store.Record) { r.Control.Attempt++ },
	} {
		record := fullRecord(execution.Completed)
		change(&record)
		body, err := projectionOf(record)
		if err != nil {
			t.Fatal(err)
		}
		tag := tagOf(record, body)
		if before, ok := seen[tag]; ok {
			t.Errorf("%s names\n%s\nand\n%s", tag, before, body)
		}
		seen[tag] = string(body)
	}
}

// Who waits is answered when the execution has ended, and at once where it has; after its time it is told how it stands.
func TestWaitForEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		path := r.running()
		began, reads := time.Now(), r.store.Calls(faultstore.Read)
		a := r.call("GET", path+"?wait=60", "")
		if took := time.Since(began); a.status != 200 || !strings.Contains(a.body, `"running"`) || took != time.Minute {
			r.Errorf("%d %s after %v", a.status, a.body, took)
		}
		if n := r.store.Calls(faultstore.Read) - reads; n != 2 { // at both ends
			r.Errorf("%d reads in a minute", n)
		}
		waits := r.ask("GET", path+"?wait=60", "")
		waits.kept(r)
		r.release <- struct{}{}
		if a := waits.soon(r); a.status != 200 || !strings.Contains(a.body, `"completed"`) || a.header.Get("ETag") == "" {
			r.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		if a := r.ask("GET", path+"?wait=60", "").soon(r); !strings.Contains(a.body, `"completed"`) {
			r.Errorf("ended before: %s", a.body)
		}
		if r.metrics.opened != 3 || r.metrics.open["hold"] != 0 {
			r.Errorf("%d viewers, of whom %d are left", r.metrics.opened, r.metrics.open["hold"])
		}
	})
}

// Who knows how the execution is waits until it is not so any more.
func TestWaitForChange(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		path := r.waiting("true")
		tag := r.call("GET", path, "").header.Get("ETag")
		began := time.Now()
		if a := r.call("GET", path+"?wait=7", "", "If-None-Match: "+tag); a.status != 304 || time.Since(began) != 7*time.Second {
			r.Errorf("nothing happened: %d after %v", a.status, time.Since(began))
		}
		if a := r.ask("GET", path+"?wait=7", "", `If-None-Match: "other"`).soon(r); a.status != 200 {
			r.Errorf("changed before: %d", a.status)
		}
		waits := r.ask("GET", path+"?wait=7", "", "If-None-Match: "+tag)
		waits.kept(r)
		r.call("POST", path+"/cancel", `{"reason":"why"}`)
		a := waits.soon(r)
		if a.status != 200 || !strings.Contains(a.body, `"canceled"`) {
			r.Errorf("%d %s", a.status, a.body)
		}
		// It has ended, and nothing will change any more.
		if a := r.ask("GET", path+"?wait=60", "", "If-None-Match: "+a.header.Get("ETag")).soon(r); a.status != 304 {
			r.Errorf("ended: %d", a.status)
		}
	})
}

// Progress is a change. What is streamed is none, and asks nothing of the store.
func TestWaitIsNotForChunks(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		path := r.submit("hold", "1")
		attempt := <-r.held
		tag := r.call("GET", path, "").header.Get("ETag")
		waits := r.ask("GET", path+"?wait=9", "", "If-None-Match: "+tag)
		waits.kept(r)
		r.must(durable.Report(attempt, durable.Event{Kind: "k", Message: "half", Now: true}))
		if a := waits.soon(r); a.status != 200 || !strings.Contains(a.body, `"half"`) {
			r.Errorf("%d %s", a.status, a.body)
		}
		dripping := r.submit("drip", "20")
		r.await(dripping, execution.Running)
		tag = r.call("GET", dripping, "").header.Get("ETag")
		reads := r.store.Calls(faultstore.Read)
		if a := r.call("GET", dripping+"?wait=9", "", "If-None-Match: "+tag); a.status != 304 {
			r.Errorf("%d %s", a.status, a.body)
		}
		if n := r.store.Calls(faultstore.Read) - reads; n > 3 {
			r.Errorf("%d reads while 9 chunks came", n)
		}
		r.call("POST", dripping+"/cancel", "")
	})
}

// A server that shuts down lets everybody go with how things stand.
func TestWaitEndsWithServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		path := r.running()
		waits := r.ask("GET", path+"?wait=60", "")
		waits.kept(r)
		r.hub.Close()
		if a := waits.soon(r); a.status != 200 || !strings.Contains(a.body, `"running"`) {
			r.Errorf("%d %s", a.status, a.body)
		}
		if a := r.ask("GET", path+"?wait=60", "").soon(r); a.status != 200 {
			r.Errorf("afterwards: %d", a.status)
		}
	})
}

// A client that goes away takes its wait with it; until then it counts as a viewer.
func TestWaitingClientGoesAway(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.api.Limits.Viewers = 1 })
	path := r.running()
	connection := r.dial("GET " + path + "?wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == 1 })
	if a := r.call("GET", path+"?wait=60", ""); a.status != 429 {
		t.Errorf("a second one: %d", a.status)
	}
	if a := r.call("GET", path+"?wait=0", ""); a.status != 200 {
		t.Errorf("one that does not wait: %d", a.status)
	}
	connection.Close()
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == 0 })
}

func TestBadWaits(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.waiting("true")
	for _, wait := range []string{"-1", "61", "x", "1.5", "1s", "99999999999999999999", ""} {
		if a := r.call("GET", path+"?wait="+wait, ""); a.status != 400 || r.problem(a).Code != "invalid_request" {
			t.Errorf("%q: %d %s", wait, a.status, a.body)
		}
	}
}

// Payloads are downloaded byte for byte, as files, by who has the scope for each.
func TestDownloads(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	const value = `{"z":[1e400,-0,{}],"a":"<&\\u2028>","n":9007199254740993}`
	path := r.projection(r.call("POST", submitPath("echo"), `{ "input" : `+value+` }`, as(boss))).Links.Self
	r.token = boss
	r.await(path, execution.Completed)
	r.token = ""
	for of, tokens := range map[string][2]string{"/result": {only("read"), only("submit")}, "/input": {only("submit"), only("read")}} {
		a := r.call("GET", path+of, "", as(tokens[0]))
		want := fmt.Sprintf(`attachment; filename="%s-%s.json"`, path[len(executionsPath):], of[1:])
		if a.status != 200 || a.body != value || a.header.Get("Content-Type") != "application/json" ||
			a.header.Get("Content-Disposition") != want || a.header.Get("Cache-Control") != "no-cache, private" {
			t.Errorf("%s: %d %v %s", of, a.status, a.header, a.body)
		}
		if a := r.call("GET", path+of, "", as(tokens[1])); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", of, a.status)
		}
	}
}
