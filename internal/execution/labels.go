package execution

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of labels.
const (
	MaxLabels      = 8  // of an execution
	MaxLabelLength = 63 // of a key, and of a value, in characters
)

// Labels are what clients find executions by, as stores keep them: one "key=value" a line, in the order of the keys. As a
// text they can be compared, and a line names an index. Empty: none.
type Labels string

// LabelError is a rule of labels that is broken.
type LabelError struct {
	Key     string // empty: it is about all of them
	Rule    string // keyword of JSON Schema
	Message string // what must be, to follow the name of the part
	Limit   int64  // that was hit, where there is one
}

func (e *LabelError) Error() string {
	if e.Key == "" {
		return "the labels: " + e.Message
	}
	return fmt.Sprintf("the label %q: %s", e.Key, e.Message)
}

// NewLabels are the labels of a map. The error is a [*LabelError].
func NewLabels(of map[string]string) (Labels, error) {
	if len(of) > MaxLabels {
		return "", &LabelError{Rule: "maxProperties", Message: fmt.Sprintf("must be at most %d", MaxLabels), Limit: MaxLabels}
	}
	lines := make([]string, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		line, err := Label(key, of[key])
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return Labels(strings.Join(lines, "\n")), nil
}

// Label is the line of one label. The error is a [*LabelError].
func Label(key, value string) (string, error) {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("._/-", r)
	}
	switch {
	case key == "" || len(key) > MaxLabelLength || strings.ContainsFunc(key, odd):
		return "", &LabelError{Key: key, Rule: "propertyNames", Limit: MaxLabelLength,
			Message: fmt.Sprintf("must have a name of 1 to %d of the characters a-z 0-9 . _ / -", MaxLabelLength)}
	case utf8.RuneCountInString(value) > MaxLabelLength:
		return "", &LabelError{Key: key, Rule: "maxLength", Message: fmt.Sprintf("must have at most %d characters", MaxLabelLength), Limit: MaxLabelLength}
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "", &LabelError{Key: key, Rule: "pattern", Message: "must have no control characters"}
	}
	return key + "=" + value, nil
}

// All yields the labels in the order of their keys.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for line := range strings.SplitSeq(string(l), "\n") {
			if key, value, ok := strings.Cut(line, "="); ok && !yield(key, value) {
				return
			}
		}
	}
}

// Has reports whether a line of [Label] is among the labels.
func (l Labels) Has(line string) bool {
	return strings.Contains("\n"+string(l)+"\n", "\n"+line+"\n")
}
