package execution

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	of := map[string]string{"team": "search=index", "a/b.c_d-9": "", "z": strings.Repeat("é", 63)}
	l, err := NewLabels(of)
	if want := Labels("a/b.c_d-9=\nteam=search=index\nz=" + of["z"]); err != nil || l != want {
		t.Fatalf("%q (%v), want %q", l, err, want)
	}
	if diff := cmp.Diff(of, maps.Collect(l.All())); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	for range l.All() {
		break // a reader may stop
	}
	for line, want := range map[string]bool{"team=search=index": true, "a/b.c_d-9=": true, "z=" + of["z"]: true,
		"team=search": false, "earch=index": false, "team": false, "": false} {
		if l.Has(line) != want {
			t.Errorf("has %q: %t", line, !want)
		}
	}
	if none, err := NewLabels(nil); err != nil || none != "" || len(maps.Collect(none.All())) != 0 {
		t.Errorf("none are %q (%v)", none, err)
	}
}

func TestLabelsRefused(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for key := range strings.SplitSeq("a b c d e f g h i", " ") {
		many[key] = ""
	}
	for _, test := range []struct {
		labels map[string]string
		want   LabelError
	}{
		{many, LabelError{Rule: "maxProperties", Limit: 8}},
		{map[string]string{"": "x"}, LabelError{Rule: "propertyNames", Limit: 63}},
		{map[string]string{"A": "x"}, LabelError{Key: "A", Rule: "propertyNames", Limit: 63}},
		{map[string]string{"a=b": "x"}, LabelError{Key: "a=b", Rule: "propertyNames", Limit: 63}},
		{map[string]string{strings.Repeat("k", 64): "x"}, LabelError{Key: strings.Repeat("k", 64), Rule: "propertyNames", Limit: 63}},
		{map[string]string{"k": strings.Repeat("é", 64)}, LabelError{Key: "k", Rule: "maxLength", Limit: 63}},
		{map[string]string{"k": "a\nb"}, LabelError{Key: "k", Rule: "pattern"}},
		{map[string]string{"k": "\u0085"}, LabelError{Key: "k", Rule: "pattern"}},
		{map[string]string{"k": "\xff"}, LabelError{Key: "k", Rule: "pattern"}},
	} {
		_, err := NewLabels(test.labels)
		got, ok := errors.AsType[*LabelError](err)
		if !ok || got.Message == "" || !strings.Contains(err.Error(), "label") {
			t.Errorf("%v: %v", test.labels, err)
			continue
		}
		got.Message = ""
		if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.labels, diff)
		}
	}
}
