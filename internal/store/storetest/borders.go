package storetest

import (
	"context"
	"errors"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func borderTests() []test {
	return []test{
		{name: "a call that was given up says so and does nothing", run: borderContext},
		{name: "controls come in the order of their ids", run: borderControls},
		{name: "what a caller does with its bytes is its own matter", run: borderCopies},
		{name: "the store proves that it works", run: borderCheck},
		{name: "closing ends blocked calls and refuses new ones", run: borderClose},
		{name: "unknown executions are not found", run: borderUnknown},
	}
}

// calls is one of each method that may be refused.
func calls(k *kit) map[string]func(ctx context.Context) error {
	c := k.start()
	s := k.keyed("k")
	return map[string]func(ctx context.Context) error{
		"submit": func(ctx context.Context) error { _, err := k.Store.Submit(ctx, s); return err },
		"find":   func(ctx context.Context) error { _, err := k.Store.FindKey(ctx, s.Key); return err },
		"poll":   func(ctx context.Context) error { _, err := k.Store.Poll(ctx, k.request(1)); return err },
		"transition": func(ctx context.Context) error {
			_, err := k.Store.Transition(ctx, c, complete(k, c))
			return err
		},
		"beat": func(ctx context.Context) error {
			_, err := k.Store.Beat(ctx, []store.Beat{{ID: c.ID, Ownership: ownership(c)}})
			return err
		},
		"resume": func(ctx context.Context) error { _, err := k.Store.Resume(ctx, k.answer(c, "", 0)); return err },
		"cancel": func(ctx context.Context) error { _, err := k.Store.Cancel(ctx, c.ID, everyone, ""); return err },
		"maintain": func(ctx context.Context) error {
			_, err := k.Store.Maintain(ctx, 9)
			return err
		},
		"read": func(ctx context.Context) error {
			_, err := k.Store.Read(ctx, store.ReadRequest{ID: c.ID, Scope: everyone})
			return err
		},
		"controls": func(ctx context.Context) error { _, err := k.Store.Controls(ctx, []string{c.ID}); return err },
		"counts":   func(ctx context.Context) error { _, err := k.Store.Counts(ctx); return err },
		"displace": func(ctx context.Context) error {
			_, err := k.Store.Displace(ctx, k.rev, execution.Move{Revision: "r9"})
			return err
		},
		"workers": func(ctx context.Context) error { _, err := k.Store.Workers(ctx); return err },
		"check":   k.Store.Check,
	}
}

func borderContext(k *kit) {
	methods := calls(k)
	before, err := k.Store.Counts(k.ctx)
	k.ok(err)
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	for name, call := range methods {
		err := call(ctx)
		if !execution.Is(err, execution.CodeUnavailable) || !errors.Is(err, context.Canceled) {
			k.Errorf("%s: %v", name, err)
		}
	}
	after, err := k.Store.Counts(k.ctx)
	k.ok(err)
	k.same("counts", before, after)
}

func borderControls(k *kit) {
	a, b := k.start(), k.submit()
	absent := k.Store.NewID(store.Key{})
	got, err := k.Store.Controls(k.ctx, []string{absent, b.ID, a.ID, absent, b.ID})
	k.ok(err)
	want := []execution.Control{{ID: absent}, b, a, {ID: absent}, b}
	k.same("controls", want, got, unwatched())
	got, err = k.Store.Controls(k.ctx, nil)
	k.ok(err)
	k.same("controls", 0, len(got))
}

func borderCopies(k *kit) {
	c := k.start()
	data, wait, answer := []byte(`"c"`), k.wait(execution.Wait{Kind: "k"}), []byte(`"a"`)
	chunk := []byte(`"x"`)
	k.ok(k.beat(store.Beat{ID: c.ID, Ownership: ownership(c), Chunks: &execution.ChunkBatch{Attempt: 1, Chunks: [][]byte{chunk}}})[0].Err)
	suspended, err := k.Store.Transition(k.ctx, c, execution.Suspend{Owned: k.owned(c, event("a")), Checkpoint: data, Wait: wait})
	k.ok(err)
	c = suspended.Control
	for _, e := range suspended.Log {
		clear(e.Data)
	}
	for _, b := range [][]byte{data, wait, chunk} {
		clear(b)
	}
	first := k.read(c.ID)
	k.same("wait", `{"kind":"k"}`, string(first.Wait))
	clear(first.Wait)
	clear(first.Progress[0])
	clear(k.log(c.ID)[0].Data)
	again := k.read(c.ID)
	k.same("wait", `{"kind":"k"}`, string(again.Wait))
	k.same("progress", k.rendered(event("a"), 1), again.Progress[0])
	k.same("chunks", batch(execution.Control{Attempt: 1}, 0, `"x"`).Encode(), k.log(c.ID)[0].Data)
	_, err = k.Store.Resume(k.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: answer, Checked: c.WaitSequence})
	k.ok(err)
	clear(answer)
	r := k.request(1)
	claimed := k.poll(r).Claimed[0]
	clear(claimed.Checkpoint)
	clear(claimed.Answer)
	claimed = k.poll(r).Claimed[0]
	k.same("claimed", []string{`{"n":1}`, `"c"`, `"a"`},
		[]string{string(claimed.Input), string(claimed.Checkpoint), string(claimed.Answer)})
}

func borderCheck(k *kit) {
	k.ok(k.Store.Check(k.ctx))
}

func borderClose(k *kit) {
	methods := calls(k)
	id := k.submit().ID
	t := k.tail(id)
	read := k.reading(k.ctx, t, store.Position{ID: id})
	began, listening := make(chan struct{}, 1), make(chan reading, 1)
	go func() {
		err := k.Store.Listen(k.ctx, func(store.Revision) {
			select {
			case began <- struct{}{}:
			default:
			}
		})
		listening <- reading{err: err}
	}()
	<-began
	k.ok(k.Store.Close())
	k.same("entries", 0, len(k.result(read).entries))
	k.refused(k.result(listening).err, execution.CodeUnavailable)
	for name, call := range methods {
		if err := call(k.ctx); !execution.Is(err, execution.CodeUnavailable) {
			k.Errorf("%s: %v", name, err)
		}
	}
	k.ok(k.Store.Close())
}

func borderUnknown(k *kit) {
	for _, id := range []string{k.Store.NewID(store.Key{}), "", "no such id", "\x00", "{x}:c:*"} {
		_, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, Watch: true, Log: true, LogLimit: 9})
		k.refused(err, execution.CodeNotFound)
		_, err = k.Store.Cancel(k.ctx, id, everyone, "")
		k.refused(err, execution.CodeNotFound)
		_, err = k.Store.Resume(k.ctx, store.ResumeRequest{ID: id, Scope: everyone, Answer: []byte("1")})
		k.refused(err, execution.CodeNotFound)
		got, err := k.Store.Controls(k.ctx, []string{id})
		k.ok(err)
		k.same("status", execution.Status(""), got[0].Status)
	}
}
