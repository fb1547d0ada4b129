package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// preferences are what a request prefers (RFC 7240). Nobody is refused for one that can't be met, or read.
type preferences struct {
	async bool          // to be answered before the work has ended
	waits bool          // to be answered when it has, for at most wait
	wait  time.Duration // at most maxWait
}

// preferencesOf reads the headers Prefer. Where a preference is there twice, the first one counts.
func preferencesOf(header http.Header) (p preferences) {
	for _, line := range header.Values("Prefer") {
		for one := range strings.SplitSeq(line, ",") {
			one, _, _ = strings.Cut(one, ";") // parameters, which neither preference has
			name, value, _ := strings.Cut(one, "=")
			switch strings.ToLower(strings.Trim(name, " \t")) {
			case "respond-async":
				p.async = true
			case "wait":
				seconds, err := strconv.ParseUint(strings.Trim(value, ` \t"`), 10, 31)
				if err == nil && !p.waits {
					p.waits, p.wait = true, time.Duration(min(seconds, maxWait))*time.Second
				}
			}
		}
	}
	return p
}

// settle answers a submission that was admitted, as its client prefers it: when it has ended, if that is in time. Whatever comes in
// between changes nothing about its being admitted.
func (a *api) settle(w http.ResponseWriter, r *http.Request, record store.Record, keyed bool) {
	prefers := preferencesOf(r.Header)
	var applied []string
	if prefers.waits {
		var waited bool
		if record, waited = a.outcome(r, record, prefers.wait); waited {
			applied = append(applied, "wait="+strconv.Itoa(int(prefers.wait.Seconds())))
		}
	}
	status := http.StatusAccepted
	switch {
	case len(applied) > 0 && ended(record):
		status = http.StatusOK
	case prefers.async:
		applied = append(applied, "respond-async")
	}
	if len(applied) > 0 {
		w.Header().Set("Preference-Applied", strings.Join(applied, ", "))
	}
	body, err := projectionOf(record)
	if err != nil {
		a.refuse(w, r, unreadableWait(err))
		return
	}
	if keyed {
		body = a.promised(body)
	}
	a.answer(w, status, "application/json", body)
}

// outcome waits for the end of an execution, and returns it as it then stands; false: there is no room for another who waits, or
// the store does not answer.
func (a *api) outcome(r *http.Request, record store.Record, wait time.Duration) (store.Record, bool) {
	if ended(record) || wait == 0 {
		return record, true
	}
	account := principalOf(r).Account()
	if a.viewers.enter(account) != nil {
		return record, false
	}
	defer a.viewers.leave(account)
	c := record.Control
	now, err := a.await(r.Context(), stream.Request{ID: c.ID, Scope: store.Scope{Owner: c.Owner}, Skip: stream.Skippable}, wait, ended)
	if err != nil {
		return record, false
	}
	return now, true
}
