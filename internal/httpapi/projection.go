package httpapi

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// projectionOf is an execution as its clients see it: contract.Execution, written by hand so that what is stored as
// JSON is neither decoded nor encoded on its way out. Names and ids hold nothing that JSON would have to escape. An error
// says that the stored wait can't be read, which only an execution that waits has.
func projectionOf(r store.Record) ([]byte, error) {
	c := r.Control
	wait, err := waitingOf(c.Status, r.Wait, c.WaitUntil)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, 0, sizeOf(r)+len(wait))
	dst = appendIdentity(append(dst, '{'), c)
	dst = appendList(append(dst, ','), "progress", r.Progress)
	dst = appendRaw(append(dst, ','), "result", meant(r.Result, c.Status == execution.Completed))
	dst = appendRaw(append(dst, ','), "error", meant(r.Error, c.Status == execution.Failed || c.Status == execution.Queued))
	dst = appendRaw(append(dst, ','), "waiting", wait)
	dst = appendTime(append(dst, ','), "cancellation_requested_at", c.CanceledAt)
	dst = appendReason(append(dst, ','), r.Reason)
	dst = appendTimes(append(dst, ','), c)
	dst = appendTime(append(dst, ','), "expires_at", r.ExpiresAt)
	return append(appendLinks(append(dst, ','), c.ID), '}'), nil
}

// appendIdentity appends what an execution is and where it stands.
func appendIdentity(dst []byte, c execution.Control) []byte {
	dst = appendText(dst, "execution_id", c.ID)
	dst = appendText(append(dst, ','), "deployment", c.Deployment)
	dst = appendText(append(dst, ','), "revision", c.Revision)
	dst = appendText(append(dst, ','), "status", string(c.Status))
	dst = appendNumber(append(dst, ','), "attempt", c.Attempt)
	return appendNumber(append(dst, ','), "sequence", c.Version)
}

// appendTimes appends when what happened to it or may happen, and what it was submitted with.
func appendTimes(dst []byte, c execution.Control) []byte {
	dst = appendTime(dst, "available_at", c.AvailableAt)
	dst = appendLabels(append(dst, ','), c.Labels)
	dst = appendNumber(append(dst, ','), "priority", c.Priority)
	dst = appendTime(append(dst, ','), "deadline", c.Deadline)
	dst = appendTime(append(dst, ','), "created_at", c.CreatedAt)
	return appendTime(append(dst, ','), "updated_at", c.UpdatedAt)
}

// sizeOf is about how long the projection becomes, without its wait: one piece of memory for it is enough.
func sizeOf(r store.Record) int {
	const frame = 900 // names, times and links, and the longest of all other values
	size := frame + 2*len(r.Control.Labels) + len(r.Result) + len(r.Error) + len(r.Reason)
	for _, event := range r.Progress {
		size += len(event) + 1
	}
	return size
}

// appendReason appends why cancellation was asked for. It is text of anybody's, not JSON.
func appendReason(dst, reason []byte) []byte {
	const name = "cancellation_reason"
	if reason == nil {
		return appendRaw(dst, name, nil)
	}
	dst, _ = jsontext.AppendQuote(appendName(dst, name), reason) // what is no UTF-8 is replaced, and told
	return dst
}

// meant is a payload where the status gives it a meaning. An error, say, stays stored while another attempt runs.
func meant(payload []byte, now bool) []byte {
	if now {
		return payload
	}
	return nil
}

// waitingOf renders what an execution waits for; nil: nothing. The default answer is the author's business.
func waitingOf(status execution.Status, stored []byte, until int64) ([]byte, error) {
	if status != execution.Waiting || stored == nil {
		return nil, nil
	}
	wait, err := execution.DecodeWait(stored)
	if err != nil {
		return nil, err
	}
	out := appendQuoted([]byte{'{'}, "kind", wait.Kind)
	out = appendQuoted(append(out, ','), "message", wait.Message)
	out = appendRaw(append(out, ','), "expected_input_schema", wait.Schema)
	return append(appendTime(append(out, ','), "deadline", until), '}'), nil
}

const executionsPath = "/v1/executions/"

func pathOf(id string) string { return executionsPath + id }

func appendLinks(dst []byte, id string) []byte {
	dst = append(appendName(dst, "links"), '{')
	dst = appendLink(dst, "self", id, "")
	dst = appendLink(append(dst, ','), "stream", id, "/stream")
	dst = appendLink(append(dst, ','), "resume", id, "/resume")
	return append(appendLink(append(dst, ','), "cancel", id, "/cancel"), '}')
}

func appendLink(dst []byte, name, id, of string) []byte {
	dst = append(append(appendName(dst, name), '"'), executionsPath...)
	return append(append(append(dst, id...), of...), '"')
}

func appendLabels(dst []byte, labels execution.Labels) []byte {
	dst = append(appendName(dst, "labels"), '{')
	comma := false
	for key, value := range labels.All() {
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = appendQuoted(dst, key, value)
	}
	return append(dst, '}')
}

func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendText appends a member whose value needs no escaping.
func appendText(dst []byte, name, value string) []byte {
	return append(append(append(appendName(dst, name), '"'), value...), '"')
}

// appendQuoted appends a member whose value is any text.
func appendQuoted(dst []byte, name, text string) []byte {
	dst, err := jsontext.AppendQuote(appendName(dst, name), text)
	if err != nil { // what was read from JSON is valid UTF-8
		panic(err)
	}
	return dst
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

// appendRaw appends a member whose value is JSON; nil is null.
func appendRaw(dst []byte, name string, raw []byte) []byte {
	dst = appendName(dst, name)
	if raw == nil {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}

// appendList appends a member whose value is a list of JSON values.
func appendList(dst []byte, name string, values [][]byte) []byte {
	dst = append(appendName(dst, name), '[')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, value...)
	}
	return append(dst, ']')
}

// appendTime appends a time, or null for 0.
func appendTime(dst []byte, name string, ms int64) []byte {
	if ms == 0 {
		return appendRaw(dst, name, nil)
	}
	return appendText(dst, name, execution.FormatMillis(ms))
}
