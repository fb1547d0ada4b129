package strictjson

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nested returns depth arrays inside each other.
func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

// White space goes, and nothing else changes.
func TestCompactKeepsEveryOtherByte(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"large integer":       {"3889108265204450030", "3889108265204450030"},
		"negative zero":       {"-0", "-0"},
		"beyond a double":     {"1e400", "1e400"},
		"odd spelling":        {"[0.1e1, 1E+2, 1.10]", "[0.1e1,1E+2,1.10]"},
		"long number":         {strings.Repeat("9", 5000), strings.Repeat("9", 5000)},
		"empty array":         {` { "a" : [ ] } `, `{"a":[]}`},
		"empty object":        {"{\t\r\n}", `{}`},
		"member order":        {`{"b":1, "a":2, "":3}`, `{"b":1,"a":2,"":3}`},
		"escapes":             {`[ "\u0041\/\"\\ \ud83d\ude00" , "<&>" ]`, `["\u0041\/\"\\ \ud83d\ude00","<&>"]`},
		"escaped NUL":         {`"\u0000"`, `"\u0000"`},
		"white space strings": {`{" a ": "  {  "}`, `{" a ":"  {  "}`},
		"line separators":     {"[\"\u2028\"]", "[\"\u2028\"]"},
		"literals":            {"[ null , true , false ]", "[null,true,false]"},
		"escaped name":        {`{"\u0061": 1, "b": 2}`, `{"\u0061":1,"b":2}`},
		"deepest":             {nested(DefaultDepth), nested(DefaultDepth)},
		"brackets in strings": {`"` + nested(500) + `"`, `"` + nested(500) + `"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Compact([]byte(test.in), Limits{})
			if err != nil {
				t.Fatalf("Compact(%q): %v", test.in, err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("Compact (-want +got):\n%s", diff)
			}
		})
	}
}

// Each rule has its own code, and the place is exact.
func TestCompactRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   string
		want Error
	}{
		"nothing":                    {"", Error{Code: CodeEmpty}},
		"only white space":           {" \n\t ", Error{Code: CodeEmpty}},
		"word":                       {"hello", Error{Code: CodeNotJSON}},
		"single quotes":              {`{'a':1}`, Error{Code: CodeNotJSON, Offset: 1}},
		"trailing comma":             {`{"a":[1,]}`, Error{Code: CodeNotJSON, Offset: 8, Pointer: "/a/1"}},
		"unfinished":                 {`{"a":`, Error{Code: CodeNotJSON, Offset: 5, Pointer: "/a"}},
		"not a number":               {`[NaN]`, Error{Code: CodeNotJSON, Offset: 1, Pointer: "/0"}},
		"unknown escape":             {`["\x"]`, Error{Code: CodeNotJSON, Offset: 2, Pointer: "/0"}},
		"control character":          {"[\"a\nb\"]", Error{Code: CodeNotJSON, Offset: 3, Pointer: "/0"}},
		"duplicate name":             {`{"x":{"a":1,"a":2}}`, Error{Code: CodeDuplicateKey, Offset: 12, Pointer: "/x/a"}},
		"duplicate by escape":        {`{"a":1,"\u0061":2}`, Error{Code: CodeDuplicateKey, Offset: 7, Pointer: "/a"}},
		"pointer is escaped":         {`{"a/b~":{"":1,"":2}}`, Error{Code: CodeDuplicateKey, Offset: 14, Pointer: "/a~1b~0/"}},
		"second value":               {`{"a":1} {"b":2}`, Error{Code: CodeTrailingData, Offset: 8}},
		"second document line":       {"1\n2", Error{Code: CodeTrailingData, Offset: 2}},
		"rest after value":           {`[1]]`, Error{Code: CodeTrailingData, Offset: 3}},
		"leading zero":               {`01`, Error{Code: CodeTrailingData, Offset: 1}},
		"too deep":                   {nested(DefaultDepth + 1), Error{Code: CodeTooDeep, Offset: DefaultDepth, Pointer: strings.Repeat("/0", DefaultDepth)}},
		"too deep and unfinished":    {strings.Repeat("[", 100_000), Error{Code: CodeTooDeep, Offset: DefaultDepth, Pointer: strings.Repeat("/0", DefaultDepth)}},
		"invalid UTF-8":              {"{\"a\":\"x\xffy\"}", Error{Code: CodeInvalidUTF8, Offset: 7, Pointer: "/a"}},
		"overlong UTF-8":             {"\"\xc0\xaf\"", Error{Code: CodeInvalidUTF8, Offset: 1}},
		"surrogate in UTF-8":         {"\"\xed\xa0\x80\"", Error{Code: CodeInvalidUTF8, Offset: 1}},
		"invalid UTF-8 in a name":    {"{\"\xff\":1}", Error{Code: CodeInvalidUTF8, Offset: 2}},
		"invalid UTF-8 comes first":  {"[\"\xff\", x]", Error{Code: CodeInvalidUTF8, Offset: 2, Pointer: "/0"}},
		"high surrogate alone":       {`["\ud800"]`, Error{Code: CodeLoneSurrogate, Offset: 2, Pointer: "/0"}},
		"high surrogate and text":    {`["\ud800x"]`, Error{Code: CodeLoneSurrogate, Offset: 2, Pointer: "/0"}},
		"low surrogate alone":        {`["a\udc00"]`, Error{Code: CodeLoneSurrogate, Offset: 3, Pointer: "/0"}},
		"two high surrogates":        {`["\ud800\ud800"]`, Error{Code: CodeLoneSurrogate, Offset: 2, Pointer: "/0"}},
		"NUL between values":         {"[1,\x002]", Error{Code: CodeNULByte, Offset: 3, Pointer: "/1"}},
		"NUL in a string":            {"[\"a\x00b\"]", Error{Code: CodeNULByte, Offset: 3, Pointer: "/0"}},
		"NUL after the value":        {"1\x00", Error{Code: CodeNULByte, Offset: 1}},
		"NUL alone":                  {"\x00", Error{Code: CodeNULByte}},
		"byte order mark":            {"\xef\xbb\xbf{}", Error{Code: CodeByteOrderMark}},
		"byte order mark and broken": {"\xef\xbb\xbf{", Error{Code: CodeByteOrderMark}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Compact([]byte(test.in), Limits{})
			if got != nil {
				t.Errorf("Compact returned %q beside an error", got)
			}
			if diff := cmp.Diff(test.want, *asError(t, err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func asError(t *testing.T, err error) *Error {
	t.Helper()
	var strict *Error
	if !errors.As(err, &strict) {
		t.Fatalf("error is %T (%v), want *Error", err, err)
	}
	return strict
}

// The limit is exact whatever it is set to, and can't be set beyond what the parser takes.
func TestDepthLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 128, 10_000} {
		if _, err := Compact([]byte(nested(limit)), Limits{Depth: limit}); err != nil {
			t.Errorf("depth %d under its own limit: %v", limit, err)
		}
		_, err := Compact([]byte(nested(limit+1)), Limits{Depth: limit})
		if got := asError(t, err); got.Code != CodeTooDeep || got.Offset != int64(limit) {
			t.Errorf("depth %d under limit %d: %v", limit+1, limit, err)
		}
	}
	_, err := Compact([]byte(nested(10_001)), Limits{Depth: 1 << 30})
	if got := asError(t, err); got.Code != CodeTooDeep {
		t.Errorf("depth beyond the parser's: %v", err)
	}
}

// An error never carries an unbounded piece of the document.
func TestPointerIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 10_000)
	_, err := Compact([]byte(`{"a":{"`+long+`":[nope]}}`), Limits{})
	if got := asError(t, err); got.Pointer != "/a" {
		t.Errorf("pointer has %d bytes, want the enclosing /a", len(got.Pointer))
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   string
		want []Field
	}{
		"empty": {`{}`, nil},
		"order and bytes": {`{"z":1e400,"a":[],"in\u0070ut":{"b":-0}}`, []Field{
			{"z", []byte("1e400")}, {"a", []byte("[]")}, {"input", []byte(`{"b":-0}`)},
		}},
		"scalars": {`{"n":null,"t":true,"s":"\u0000"}`, []Field{
			{"n", []byte("null")}, {"t", []byte("true")}, {"s", []byte(`"\u0000"`)},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Fields([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldsRefusesOtherValues(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "null", "[]", `"{}"`, "1"} {
		_, err := Fields([]byte(in))
		if got := asError(t, err); got.Code != CodeNotObject {
			t.Errorf("Fields(%q): %v, want %s", in, err, CodeNotObject)
		}
	}
	_, err := Fields([]byte(`{"a":}`))
	if got := asError(t, err); got.Code != CodeNotJSON {
		t.Errorf("Fields of a broken object: %v", err)
	}
}

// White space does not count; order and spelling do.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	digest := func(raw string) [32]byte {
		compact, err := Compact([]byte(raw), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return Fingerprint(compact)
	}
	same := digest(`{"a":1,"b":[]}`)
	if digest(" {\"a\" : 1,\n \"b\":[ ]} ") != same {
		t.Error("white space changes the fingerprint")
	}
	for _, other := range []string{`{"b":[],"a":1}`, `{"a":1.0,"b":[]}`, `{"a":1,"b":{}}`} {
		if digest(other) == same {
			t.Errorf("%s has the fingerprint of another document", other)
		}
	}
}

// Every code says its rule in a sentence of its own.
func TestRules(t *testing.T) {
	t.Parallel()
	codes := []Code{
		CodeEmpty, CodeNotJSON, CodeDuplicateKey, CodeTrailingData, CodeTooDeep,
		CodeInvalidUTF8, CodeLoneSurrogate, CodeNULByte, CodeByteOrderMark, CodeNotObject,
	}
	seen := map[string]Code{}
	for _, code := range codes {
		rule := code.Rule()
		if other, ok := seen[rule]; ok {
			t.Errorf("%s and %s share a rule", code, other)
		}
		seen[rule] = code
	}
}

func BenchmarkCompact(b *testing.B) {
	compact := []byte(`[` + strings.Repeat(`{"id":3889108265204450030,"text":"some words of a usual length"},`, 1000) + `null]`)
	inputs := map[string][]byte{"compact": compact, "spaced": bytes.ReplaceAll(compact, []byte(","), []byte(" , "))}
	for name, raw := range inputs {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compact(raw, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
