package strictjson

import (
	"bytes"
	"encoding/json"
	"testing"
)

func addSeeds(f *testing.F) {
	f.Helper()
	seeds := []string{
		``, `null`, ` {"a" : [1, -0, 1e400, "\u0000\ud83d\ude00"]} `, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"",
		"\xef\xbb\xbf{}", "[1,\x00]", `[[[[]]]]`, `{"input": {"b": []}, "c": "d"}`, `"\\"`, `"\`, `1 2`,
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
}

// FuzzCompact holds the result against the standard library's compactor, and asks that compacting is idempotent and that
// an error points into the document.
func FuzzCompact(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		original := bytes.Clone(raw)
		out, err := Compact(raw, Limits{})
		if !bytes.Equal(raw, original) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if got := asError(t, err); got.Offset < 0 || got.Offset > int64(len(raw)) {
				t.Fatalf("offset %d of a document of %d bytes", got.Offset, len(raw))
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, raw); err != nil {
			t.Fatalf("accepted what the standard library refuses: %v", err)
		}
		if !bytes.Equal(out, want.Bytes()) {
			t.Fatalf("got %q, want %q", out, want.Bytes())
		}
		again, err := Compact(out, Limits{})
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("not idempotent: %q, %v", again, err)
		}
	})
}

// FuzzFields asks that the members of an accepted object, put together again, are that object but for the spelling of
// names.
func FuzzFields(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		compact, err := Compact(raw, Limits{})
		if err != nil || compact[0] != '{' {
			return
		}
		fields, err := Fields(compact)
		if err != nil {
			t.Fatalf("accepted object %q does not split: %v", compact, err)
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(compact, &want); err != nil {
			t.Fatal(err)
		}
		if len(fields) != len(want) {
			t.Fatalf("%d fields, want %d", len(fields), len(want))
		}
		for _, field := range fields {
			if !bytes.Equal(field.Value, want[field.Name]) {
				t.Fatalf("member %q is %q, want %q", field.Name, field.Value, want[field.Name])
			}
		}
	})
}
