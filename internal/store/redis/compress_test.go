package redis_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// wordy is a JSON string of that many bytes that gets much shorter.
func wordy(n int, seed string) []byte {
	return []byte(`"` + strings.Repeat(seed+" again and ", n)[:n-2] + `"`)
}

// compressing is a kit whose store compresses, and one whose store does not, in the same namespace.
func compressing(t *testing.T, limits store.Limits) (k, plain *kit) {
	t.Helper()
	c := redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t), Limits: limits}
	plain = openKit(t, c)
	c.Compress = true
	return openKit(t, c), plain
}

// What is compressed comes back unchanged, whoever reads it, and takes much less room.
func TestCompressedPayloads(t *testing.T) {
	t.Parallel()
	k, plain := compressing(t, store.Limits{})
	input, saved, answer, result := wordy(20_000, "in"), wordy(30_000, "save"), wordy(3000, "answer"), wordy(5000, "out")
	sub := k.submission()
	sub.Input = input
	_, err := k.store.Submit(t.Context(), sub)
	k.ok(err)
	short := func(kind string, atMost int64) {
		t.Helper()
		if n := redistest.Client(t).StrLen(t.Context(), k.key(kind+":"+sub.ID)).Val(); n == 0 || n > atMost {
			t.Errorf("%s takes %d bytes, at most %d", kind, n, atMost)
		}
	}
	short("i", 1000)
	claimed := plain.poll(1).Claimed[0]
	if !bytes.Equal(claimed.Input, input) || claimed.Invalid {
		t.Errorf("an input of %d bytes, invalid %v", len(claimed.Input), claimed.Invalid)
	}
	c := k.do(claimed.Control, execution.Checkpoint{Owned: k.owned(claimed.Control), Data: saved, Lease: lease})
	short("k", 1000)
	wait, err := execution.Wait{Kind: "approval"}.Encode()
	k.ok(err)
	c = k.do(c, execution.Suspend{Owned: k.owned(c), Wait: wait})
	_, err = k.store.Resume(t.Context(), store.ResumeRequest{ID: c.ID, Scope: store.Scope{All: true}, Answer: answer, Checked: c.WaitSequence})
	k.ok(err)
	short("a", 300)
	claimed = plain.poll(1).Claimed[0]
	if diff := cmp.Diff([]string{string(saved), string(answer)}, []string{string(claimed.Checkpoint), string(claimed.Answer)}); diff != "" {
		t.Errorf("checkpoint and answer (-want +got):\n%s", diff)
	}
	k.do(claimed.Control, execution.Complete{Owned: k.owned(claimed.Control), Result: result})
	short("r", 300)
	for _, reader := range []*kit{k, plain} {
		r, err := reader.store.Read(t.Context(), store.ReadRequest{ID: c.ID, Scope: store.Scope{All: true}, Input: true})
		k.ok(err)
		if !bytes.Equal(r.Result, result) || !bytes.Equal(r.Input, input) {
			t.Errorf("a result of %d bytes, an input of %d", len(r.Result), len(r.Input))
		}
	}
}

// Chunks come back unchanged by every way to a viewer, a batch is repeated without standing there twice, and what a log keeps goes
// by what was said, not by what it takes.
func TestCompressedChunks(t *testing.T) {
	t.Parallel()
	k, plain := compressing(t, store.Limits{HistoryBytes: 20_000})
	c := k.start()
	batch := func(n int64) *execution.ChunkBatch {
		return chunks(1, 2*n, string(wordy(2000, fmt.Sprint("a", n))), string(wordy(2000, fmt.Sprint("b", n))))
	}
	var want []execution.Entry
	for n := range int64(8) {
		got := k.stream(c, batch(n))
		k.ok(got.Err)
		if n == 3 {
			k.store.ForgetHistory(c.ID) // the script has to tell how much the log holds
		}
		want = append(want, got.Log...)
		if !bytes.Equal(got.Log[0].Data, batch(n).Encode()) {
			t.Fatalf("batch %d is told as %d bytes", n, len(got.Log[0].Data))
		}
	}
	out, err := k.store.Beat(t.Context(), []store.Beat{{ID: c.ID, Ownership: owner(c), Chunks: batch(7), Repeat: true}})
	k.ok(err)
	if diff := cmp.Diff(want[7:], out[0].Log); diff != "" {
		t.Errorf("a repeat (-want +got):\n%s", diff)
	}
	want = want[3:] // 20,000 bytes
	if diff := cmp.Diff(want, plain.read(c.ID).Log); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	tail, err := plain.store.Tail(t.Context(), 0)
	k.ok(err)
	defer func() { k.ok(tail.Close()) }()
	found, err := tail.Read(t.Context(), []store.Position{{ID: c.ID}}, time.Second)
	k.ok(err)
	if diff := cmp.Diff([]store.Entries{{ID: c.ID, Entries: want}}, found); diff != "" {
		t.Errorf("a tail (-want +got):\n%s", diff)
	}
	if n := redistest.Client(t).MemoryUsage(t.Context(), k.key("l:"+c.ID)).Val(); n > 5000 {
		t.Errorf("the log takes %d bytes", n)
	}
}

// What can't be expanded is corrupt, and keeps nobody else from being claimed or read.
func TestCompressedGarbage(t *testing.T) {
	t.Parallel()
	k, _ := compressing(t, store.Limits{})
	bad, good := k.submit(), k.submit()
	garbage := "\x01(\xb5/\xfd\xa0\xff\xff\xff\xff"
	k.ok(redistest.Client(t).Set(t.Context(), k.key("i:"+bad), garbage, 0).Err())
	for _, c := range k.poll(2).Claimed {
		if c.Invalid != (c.Control.ID == bad) || c.Control.ID == good && c.Input == nil {
			t.Errorf("invalid %v, an input of %d bytes", c.Invalid, len(c.Input))
		}
	}
	_, err := k.store.Read(t.Context(), store.ReadRequest{ID: bad, Scope: store.Scope{All: true}, Input: true})
	k.refused(err, execution.CodeCorrupt)
}
