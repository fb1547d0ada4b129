package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/windrow-run/windrow/api/contract"
)

func keyHeaders(values ...string) http.Header {
	header := http.Header{}
	for _, value := range values {
		header.Add(keyHeader, value)
	}
	return header
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 512)
	tests := map[string]struct {
		values []string
		want   string
	}{
		"none":                {nil, ""},
		"bare":                {[]string{"order-17"}, "order-17"},
		"quoted":              {[]string{`"order-17"`}, "order-17"},
		"escapes":             {[]string{`"a\"b\\c"`}, `a"b\c`},
		"bare with a quote":   {[]string{`a"b\c`}, `a"b\c`},
		"bare with spaces":    {[]string{"a b, c"}, "a b, c"},
		"spaces around":       {[]string{" \ta\t "}, "a"},
		"spaces in quotes":    {[]string{`" a "`}, " a "},
		"not ASCII":           {[]string{"schlüssel-🔑"}, "schlüssel-🔑"},
		"one byte":            {[]string{"k"}, "k"},
		"512 bytes":           {[]string{long}, long},
		"512 bytes in quotes": {[]string{`"` + long + `"`}, long},
		"512 bytes escaped":   {[]string{`"` + strings.Repeat(`\\`, 512) + `"`}, strings.Repeat(`\`, 512)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refused := idempotencyKey(keyHeaders(test.values...))
			if refused != nil || got != test.want {
				t.Errorf("key %q, %+v; want %q", got, refused, test.want)
			}
		})
	}
}

// Each rule says itself.
func TestIdempotencyKeyRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values []string
		rule   string
	}{
		"0 bytes":              {[]string{""}, "at least 1 byte"},
		"only spaces":          {[]string{"  "}, "at least 1 byte"},
		"0 bytes in quotes":    {[]string{`""`}, "at least 1 byte"},
		"513 bytes":            {[]string{strings.Repeat("k", 513)}, "at most 512 bytes"},
		"513 bytes in quotes":  {[]string{`"` + strings.Repeat("k", 513) + `"`}, "at most 512 bytes"},
		"513 bytes, not ASCII": {[]string{strings.Repeat("ü", 256) + "k"}, "at most 512 bytes"},
		"unfinished":           {[]string{`"abc`}, "begins with a double quote"},
		"only a quote":         {[]string{`"`}, "begins with a double quote"},
		"text after the quote": {[]string{`"abc"d`}, "begins with a double quote"},
		"unknown escape":       {[]string{`"a\nb"`}, "begins with a double quote"},
		"escape at the end":    {[]string{`"a\`}, "begins with a double quote"},
		"not UTF-8":            {[]string{"a\xff"}, "UTF-8"},
		"control character":    {[]string{"a\tb"}, "control characters"},
		"NUL":                  {[]string{"a\x00b"}, "control characters"},
		"control beyond ASCII": {[]string{"a\u0085b"}, "control characters"},
		"twice":                {[]string{"a", "a"}, "once"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, refused := idempotencyKey(keyHeaders(test.values...))
			if refused == nil || key != "" {
				t.Fatalf("accepted as %q", key)
			}
			if refused.Code != contract.ProblemCodeInvalidIdempotencyKey || !strings.Contains(refused.Detail, test.rule) {
				t.Errorf("refused with %+v, want a word of %q", refused, test.rule)
			}
		})
	}
}

// FuzzIdempotencyKey asks that a key that is accepted keeps its rules, and that its quoted form is the same key.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"", "a", `"a"`, `"a\"\\"`, `"`, "\xff", "a\x00", strings.Repeat("k", 513)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, refused := parseKey(value)
		if refused != nil {
			return
		}
		if len(key) < 1 || len(key) > 512 || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			t.Fatalf("accepted %q as %q", value, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, refused := parseKey(quoted)
		if refused != nil || again != key {
			t.Fatalf("%q in quotes is %q, %+v", key, again, refused)
		}
	})
}
