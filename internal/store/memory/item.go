package memory

import (
	"bytes"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// item is one stored execution. Bytes are copied on the way in and on the way out.
type item struct {
	control  execution.Control
	payloads map[execution.PayloadKind][]byte
	progress [][]byte
	log      eventLog
	history  execution.History
	key      bindingKey          // zero: none
	owned    bool                // admitted under its owner's ceiling
	answers  map[string][32]byte // digests by the idempotency key of a resume
}

// write stores a plan's payloads and progress, of which the newest keep events stay.
func (it *item) write(p execution.Plan, keep int) {
	for _, w := range p.Payloads {
		if w.Data == nil {
			delete(it.payloads, w.Kind)
			continue
		}
		it.payloads[w.Kind] = bytes.Clone(w.Data)
	}
	if p.DropProgress {
		it.progress = nil
	}
	for _, e := range p.Progress {
		it.progress = append(it.progress, bytes.Clone(e))
	}
	if extra := len(it.progress) - keep; extra > 0 {
		it.progress = slices.Clone(it.progress[extra:])
	}
}

// record is an execution as clients may see it.
func (s *Store) record(it *item, now execution.Instant) store.Record {
	r := store.Record{
		Control: it.control,
		Result:  it.payload(execution.PayloadResult),
		Error:   it.payload(execution.PayloadError),
		Wait:    it.payload(execution.PayloadWait),
		Reason:  it.payload(execution.PayloadReason),
		Now:     now,

		ExpiresAt: s.index.ended.of(it.control.ID),
	}
	for _, e := range it.progress {
		r.Progress = append(r.Progress, bytes.Clone(e))
	}
	return r
}

// claimed is the execution as its next attempt starts from it.
func (it *item) claimed() store.Claimed {
	return store.Claimed{
		Control:    it.control,
		Input:      it.payload(execution.PayloadInput),
		Checkpoint: it.payload(execution.PayloadCheckpoint),
		Answer:     it.payload(execution.PayloadAnswer),
		Invalid:    it.payloads[execution.PayloadInput] == nil,
	}
}

func (it *item) payload(k execution.PayloadKind) []byte { return bytes.Clone(it.payloads[k]) }
