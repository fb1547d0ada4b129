package execution

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range states() {
		c.Owner, c.Labels, c.LogEpoch, c.WatchedUntil = "ann", "team=a", "17", 99
		pairs := c.Record()
		for _, p := range pairs {
			if len(p.Field) > 2 || p.Value == "" {
				t.Errorf("pair %v", p)
			}
		}
		slices.Reverse(pairs) // a store keeps no order
		got, err := ParseRecord(c.ID, pairs)
		if diff := cmp.Diff(c, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.Status, err, diff)
		}
	}
}

func TestParseRecordRefuses(t *testing.T) {
	t.Parallel()
	with := func(s Status, f Field, value string) []Pair {
		pairs := slices.DeleteFunc(at(s, false).Record(), func(p Pair) bool { return p.Field == f })
		if value == "-" {
			return pairs
		}
		return append(pairs, Pair{f, value})
	}
	tests := map[string][]Pair{
		"nothing":                     nil,
		"unknown field":               with(Queued, "??", "1"),
		"unknown status":              with(Queued, FieldStatus, "z"),
		"no status":                   with(Queued, FieldStatus, "-"),
		"leading zero":                with(Queued, FieldVersion, "07"),
		"plus sign":                   with(Queued, FieldVersion, "+7"),
		"negative":                    with(Queued, FieldVersion, "-7"),
		"fraction":                    with(Queued, FieldVersion, "7.0"),
		"exponent":                    with(Queued, FieldVersion, "7e0"),
		"space":                       with(Queued, FieldVersion, " 7"),
		"empty":                       with(Queued, FieldVersion, ""),
		"beyond a double":             with(Queued, FieldFence, "9007199254740992"),
		"beyond 64 bits":              with(Queued, FieldFence, "99999999999999999999"),
		"another schema":              with(Queued, FieldSchema, "2"),
		"no schema":                   with(Queued, FieldSchema, "-"),
		"no deployment":               with(Queued, FieldDeployment, "-"),
		"no revision":                 with(Queued, FieldRevision, "-"),
		"no version":                  with(Queued, FieldVersion, "-"),
		"no budget":                   with(Queued, FieldBudgetLost, "-"),
		"updated before created":      with(Queued, FieldUpdatedAt, "1"),
		"running without a worker":    with(Running, FieldWorker, "-"),
		"running without a token":     with(Running, FieldToken, "-"),
		"running without a lease":     with(Running, FieldLeaseUntil, "-"),
		"queued with a worker":        with(Queued, FieldWorker, "w"),
		"queued with a lease":         with(Queued, FieldLeaseUntil, "9"),
		"waiting for nothing":         with(Waiting, FieldWaitSequence, "-"),
		"queued with a wait":          with(Queued, FieldWaitSequence, "3"),
		"queued with a wait's end":    with(Queued, FieldWaitUntil, "3"),
		"running with availability":   with(Running, FieldAvailableAt, "9"),
		"canceled without being told": with(Canceled, FieldCanceledAt, "-"),
		"queued with a cancel":        with(Queued, FieldCanceledAt, "9"),
		"completed with a cancel":     with(Completed, FieldCanceledAt, "9"),
	}
	for name, pairs := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c, err := ParseRecord("x", pairs); !Is(err, CodeCorrupt) || c != (Control{}) {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

func TestChunkBatch(t *testing.T) {
	t.Parallel()
	b := ChunkBatch{Attempt: 3, First: 250, Chunks: [][]byte{[]byte("{}"), {}, []byte("a\nb"), []byte("\x00")}}
	if got, want := string(b.Encode()), "3 250 2 0 3 1\n{}a\nb\x00"; got != want {
		t.Errorf("encoded %q, want %q", got, want)
	}
	if b.Size() != 6 {
		t.Errorf("size %d", b.Size())
	}
	got, err := DecodeChunkBatch(b.Encode())
	if diff := cmp.Diff(b, got); diff != "" || err != nil {
		t.Errorf("decoded: %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"", "\n", "1\n", "1 0\n", "1 0 2\nx", "1 0 1\nxy", "1 0 -1\n", "1 0 01\nx", "1 0 +1\nx", "1 0 1", "1  1\nx",
		"1 0 99999999999999999999\n", "1 0" + strings.Repeat(" 0", MaxBatchChunks+1) + "\n"} {
		if b, err := DecodeChunkBatch([]byte(bad)); err == nil {
			t.Errorf("%.20q is decoded as %+v", bad, b)
		}
	}
	full := ChunkBatch{Chunks: make([][]byte, MaxBatchChunks)}
	if got, err := DecodeChunkBatch(full.Encode()); err != nil || len(got.Chunks) != MaxBatchChunks {
		t.Errorf("a full batch: %d chunks, %v", len(got.Chunks), err)
	}
}

func TestStatusEntry(t *testing.T) {
	t.Parallel()
	for _, e := range []StatusEntry{
		{Status: Queued, Attempt: 1, Version: 2, AvailableAt: 3},
		{Status: Waiting, Attempt: 1, Version: 4, WaitUntil: 5, Wait: []byte("{\"a\":\n1}")},
		{Status: Canceled, Version: MaxInteger},
	} {
		got, err := DecodeStatusEntry(e.Encode())
		if diff := cmp.Diff(e, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for _, bad := range []string{"", "\n", "q 1 2 3 4", "q 1 2 3\n", "q 1 2 3 4 5\n", "z 1 2 3 4\n", "q -1 2 3 4\n", "q 1 02 3 4\n", "q 1 2 3 9007199254740992\n"} {
		if e, err := DecodeStatusEntry([]byte(bad)); err == nil {
			t.Errorf("%q is decoded as %+v", bad, e)
		}
	}
}

func TestLogID(t *testing.T) {
	t.Parallel()
	ordered := []LogID{{}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {1<<64 - 1, 1<<64 - 1}}
	for i, a := range ordered {
		if got, err := ParseLogID(a.String()); err != nil || got != a {
			t.Errorf("%v comes back as %v, %v", a, got, err)
		}
		for j, b := range ordered {
			if a.Less(b) != (i < j) {
				t.Errorf("%v before %v: %v", a, b, a.Less(b))
			}
		}
		if a.IsZero() != (i == 0) {
			t.Errorf("%v is zero: %v", a, a.IsZero())
		}
	}
	for _, bad := range []string{"", "-", "1", "1-", "-1", "1-2-3", "01-2", "+1-2", "1-18446744073709551616", "1 - 2", "1-x"} {
		if id, err := ParseLogID(bad); err == nil {
			t.Errorf("%q is read as %v", bad, id)
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	tests := map[string]Cursor{
		"17-5-6-7":    {Epoch: "17", Entry: LogID{5, 6}, Chunk: 7},
		"0-0-0-0":     {},
		"17-end":      {Epoch: "17", End: true},
		"0-end":       {End: true},
		"1-2-3-10000": {Epoch: "1", Entry: LogID{2, 3}, Chunk: MaxBatchChunks},
	}
	for text, c := range tests {
		if got := c.String(); got != text {
			t.Errorf("%+v is %q, want %q", c, got, text)
		}
		if got, err := ParseCursor(text); err != nil || got != c {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, c)
		}
	}
	for _, bad := range []string{"", "-", "end", "x-end", "17-END", "17-5-6", "17-5-6-7-8", "17-05-6-7", "-5-6-7", "17-5-6-", "17-5-6-10001",
		"17-5-6--7", "1\x00-end", strings.Repeat("1", 200)} {
		if c, err := ParseCursor(bad); !Is(err, CodeCursorInvalid) || c != (Cursor{}) {
			t.Errorf("%q is read as %+v, %v", bad, c, err)
		}
	}
}

func TestWaitAndFailure(t *testing.T) {
	t.Parallel()
	w := Wait{Kind: "approval", Message: "<a>&", Schema: []byte(`{"b":1.0}`), Default: []byte("null")}
	data, err := w.Encode()
	if err != nil || string(data) != `{"kind":"approval","message":"<a>&","expected_input_schema":{"b":1.0},"default":null}` {
		t.Errorf("wait %s, %v", data, err)
	}
	got, err := DecodeWait(data)
	if diff := cmp.Diff(w, got); diff != "" || err != nil {
		t.Errorf("wait: %v (-want +got):\n%s", err, diff)
	}
	if _, err := DecodeWait([]byte("{")); err == nil {
		t.Error("a broken wait is decoded")
	}
	long := Failure{Type: strings.Repeat("é", 200), Code: strings.Repeat("c", 300), Message: "x" + strings.Repeat("日", 700), Retryable: true}
	want := Failure{Type: strings.Repeat("é", 128), Code: strings.Repeat("c", 256), Message: "x" + strings.Repeat("日", 666), Retryable: true}
	f, err := DecodeFailure(long.Encode())
	if diff := cmp.Diff(want, f); diff != "" || err != nil {
		t.Errorf("failure: %v (-want +got):\n%s", err, diff)
	}
	if _, err := DecodeFailure([]byte("[]")); err == nil {
		t.Error("a broken failure is decoded")
	}
}

// What decodes encodes to the same bytes, so that no two texts stand for one value.

func FuzzParseRecord(f *testing.F) {
	for _, c := range states() {
		var flat []string
		for _, p := range c.Record() {
			flat = append(flat, string(p.Field), p.Value)
		}
		f.Add(strings.Join(flat, "\x00"))
	}
	f.Fuzz(func(t *testing.T, flat string) {
		var pairs []Pair
		words := strings.Split(flat, "\x00")
		for i := 0; i+1 < len(words); i += 2 {
			pairs = append(pairs, Pair{Field(words[i]), words[i+1]})
		}
		c, err := ParseRecord("x", pairs)
		if err != nil {
			return
		}
		again, err := ParseRecord("x", c.Record())
		if err != nil || again != c {
			t.Errorf("%+v comes back as %+v, %v", c, again, err)
		}
	})
}

func FuzzChunkBatch(f *testing.F) {
	f.Add([]byte("3 250 2 0 3\n{}a\nb"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := DecodeChunkBatch(data); err == nil && !bytes.Equal(b.Encode(), data) {
			t.Errorf("%q comes back as %q", data, b.Encode())
		}
	})
}

func FuzzStatusEntry(f *testing.F) {
	f.Add([]byte("w 1 2 0 5\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := DecodeStatusEntry(data); err == nil && !bytes.Equal(e.Encode(), data) {
			t.Errorf("%q comes back as %q", data, e.Encode())
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"17-5-6-7", "0-end", "0-0-0-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCursor(s); err == nil && c.String() != s {
			t.Errorf("%q comes back as %q", s, c)
		}
	})
}

func FuzzLogID(f *testing.F) {
	f.Add("5-6")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseLogID(s); err == nil && id.String() != s {
			t.Errorf("%q comes back as %q", s, id)
		}
	})
}
