package redis

import (
	"context"
	"crypto/sha256"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Resume implements [store.Store].
func (s *Store) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	partition, err := s.locate(r.ID)
	if err != nil {
		return store.Resumed{}, err
	}
	waiting := execution.Control{Status: execution.Waiting, WaitSequence: r.Checked}
	p, err := execution.Decide(waiting, execution.Resume{Sequence: r.Checked, Answer: r.Answer, Actor: r.Scope.By}, 0)
	if err != nil {
		return store.Resumed{}, err
	}
	var head packer
	head.array(8).text(r.ID).flag(r.Scope.All).text(r.Scope.Owner).number(r.Sequence).number(r.Checked)
	head.text(answerKey(r.Key)).text(string(r.Digest[:])).plan(p)
	rep := s.change(ctx, s.scripts.resume, partition, append([]any{head.bytes()}, s.data(p)...)...)
	if rep.err != nil {
		return store.Resumed{}, rep.err
	}
	out, err := decodeResumed(rep.value, r.Sequence)
	if out.Unchecked {
		return out, err // nothing was changed
	}
	return acknowledged(rep, out, err)
}

// answerKey is the field under which an answer's key is bound: short whatever the key is.
func answerKey(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

func decodeResumed(v any, named int64) (store.Resumed, error) {
	r := read(v)
	outcome, now := r.text(), r.instant()
	var out store.Resumed
	switch outcome {
	case "ok", "replayed", "unchecked":
		out = store.Resumed{Record: r.record(now), Replayed: outcome == "replayed", Unchecked: outcome == "unchecked"}
		return out, r.fault()
	case "idle":
		status, _ := execution.StatusOf(r.text())
		return out, execution.Errorf(execution.CodeNotWaiting, "the execution is %s and waits for no answer", status)
	case "moved":
		return out, execution.Errorf(execution.CodeWaitMoved, "the open wait has sequence %d, the answer is for %d", r.number(), named)
	}
	if err := r.fault(); err != nil {
		return out, err
	}
	return out, refused(outcome)
}
