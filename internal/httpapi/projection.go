package httpapi

import (
	"bytes"
	"strconv"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// appendExecution appends an execution as its clients see it: contract.Execution, written by hand so that what is stored as
// JSON is neither decoded nor encoded on its way out. Names and ids hold nothing that JSON would have to escape. An error says that
// the stored wait can't be read.
func appendExecution(dst []byte, r store.Record) ([]byte, error) {
	c := r.Control
	dst = appendText(append(dst, '{'), "execution_id", c.ID)
	dst = appendText(append(dst, ','), "deployment", c.Deployment)
	dst = appendText(append(dst, ','), "revision", c.Revision)
	dst = appendText(append(dst, ','), "status", string(c.Status))
	dst = appendNumber(append(dst, ','), "attempt", c.Attempt)
	dst = appendNumber(append(dst, ','), "sequence", c.Version)
	dst = appendName(append(dst, ','), "progress")
	dst = append(append(append(dst, '['), bytes.Join(r.Progress, []byte{','})...), ']')
	dst = appendRaw(append(dst, ','), "result", shown(r.Result, c.Status == execution.Completed))
	dst = appendRaw(append(dst, ','), "error", shown(r.Error, c.Status == execution.Failed || c.Status == execution.Queued))
	wait, err := waitingOf(c.Status, r.Wait, c.WaitUntil)
	if err != nil {
		return dst, err
	}
	dst = appendRaw(append(dst, ','), "waiting", wait)
	dst = appendTime(append(dst, ','), "cancellation_requested_at", c.CanceledAt)
	dst = appendTime(append(dst, ','), "available_at", c.AvailableAt)
	dst = appendTime(append(dst, ','), "created_at", c.CreatedAt)
	dst = appendTime(append(dst, ','), "updated_at", c.UpdatedAt)
	return append(appendLinks(append(dst, ','), c.ID), '}'), nil
}

// shown is a payload where the status gives it a meaning. An error, say, stays stored while another attempt runs.
func shown(payload []byte, meant bool) []byte {
	if !meant || payload == nil {
		return []byte("null")
	}
	return payload
}

// waitingOf renders what an execution waits for. The default answer is the author's business.
func waitingOf(status execution.Status, stored []byte, until int64) ([]byte, error) {
	if status != execution.Waiting || stored == nil {
		return []byte("null"), nil
	}
	wait, err := execution.DecodeWait(stored)
	if err != nil {
		return nil, err
	}
	out := appendJSONText(appendName([]byte{'{'}, "kind"), wait.Kind)
	out = appendJSONText(appendName(append(out, ','), "message"), wait.Message)
	out = appendRaw(append(out, ','), "expected_input_schema", shown(wait.Schema, true))
	return append(appendTime(append(out, ','), "deadline", until), '}'), nil
}

func pathOf(id string) string { return "/v1/executions/" + id }

func appendLinks(dst []byte, id string) []byte {
	self := pathOf(id)
	dst = append(appendName(dst, "links"), '{')
	dst = appendText(dst, "self", self)
	dst = appendText(append(dst, ','), "stream", self+"/stream")
	dst = appendText(append(dst, ','), "resume", self+"/resume")
	return append(appendText(append(dst, ','), "cancel", self+"/cancel"), '}')
}

func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendText appends a member whose value needs no escaping.
func appendText(dst []byte, name, value string) []byte {
	return append(append(append(appendName(dst, name), '"'), value...), '"')
}

// appendJSONText appends any text as a JSON string.
func appendJSONText(dst []byte, text string) []byte {
	encoded, err := contract.Encode(text)
	if err != nil { // a string has no way to fail
		panic(err)
	}
	return append(dst, encoded...)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

func appendRaw(dst []byte, name string, raw []byte) []byte {
	return append(appendName(dst, name), raw...)
}

// appendTime appends a time, or null for 0.
func appendTime(dst []byte, name string, ms int64) []byte {
	if ms == 0 {
		return appendRaw(dst, name, []byte("null"))
	}
	return appendText(dst, name, execution.FormatMillis(ms))
}
