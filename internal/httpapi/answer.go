package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// answer sends a whole answer. It says how long the answer is, so that HEAD tells what GET does.
func (a *api) answer(w http.ResponseWriter, status int, mediaType string, body []byte) {
	a.writeDeadline(w)
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only where the client has gone
}

// writeDeadline gives a client until the timeout to take its answer; without one it could hold the connection for ever. The
// server lifts the deadline once the answer is sent.
func (a *api) writeDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(a.BodyTimeout)) // a recorder in tests has none
}

// answerJSON answers with a value of the contract.
func (a *api) answerJSON(w http.ResponseWriter, v any) {
	a.answer(w, http.StatusOK, "application/json", encode(v))
}

// answerExecution answers with an execution as it stands.
func (a *api) answerExecution(w http.ResponseWriter, r *http.Request, status int, record store.Record) {
	body, err := projectionOf(record)
	if err != nil {
		a.refuse(w, r, unreadableWait(err))
		return
	}
	a.answer(w, status, "application/json", body)
}

// promised is a projection in the answer to a submission with a key: it says how long the key lives.
func (a *api) promised(projection []byte) []byte {
	return append(appendNumber(append(projection[:len(projection)-1], ','), "key_retention", int64(a.Retention/time.Second)), '}')
}

// unreadableWait is why an execution can't be shown.
func unreadableWait(err error) error {
	return &execution.Error{Code: execution.CodeCorrupt, Message: "the stored wait can't be read", Err: err}
}

// markReplay tells a client that an earlier request is answered.
func markReplay(w http.ResponseWriter, replayed bool) {
	if replayed {
		w.Header().Set("Idempotent-Replay", "true")
	}
}

func encode(v any) []byte {
	data, err := contract.Encode(v)
	if err != nil { // texts and numbers can always be encoded
		panic(err)
	}
	return data
}
