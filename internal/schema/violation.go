package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
)

// Rules that are not keywords of JSON Schema.
const (
	RuleJSON          = "json"            // the document is not JSON
	RuleNumberTooLong = "number_too_long" // a number is too long for a computation that the schema asks for
	RuleTooComplex    = "too_complex"     // the check took more steps than the limit
	RuleFalse         = "false"           // the schema at this place allows nothing
)

// place is where a value stands in the document: a list of steps from the value up to the document, whose place is nil.
type place struct {
	parent *place
	name   string // of a member
	index  int    // of an item, or -1 for a member
}

func (p *place) member(name string) *place { return &place{parent: p, name: name, index: -1} }

func (p *place) item(index int) *place { return &place{parent: p, index: index} }

// path returns the steps from the document to the value.
func (p *place) path() []*place {
	var steps []*place
	for ; p != nil; p = p.parent {
		steps = append(steps, p)
	}
	slices.Reverse(steps)
	return steps
}

// compareSteps orders items by index and members by name.
func compareSteps(a, b *place) int {
	return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.name, b.name))
}

// finding is a violation before its place becomes a pointer.
type finding struct {
	at            *place
	rule, message string
}

// flatten orders findings by place, then rule and message, and drops repetitions, which come of schemas that say the same
// thing twice.
func flatten(findings []finding) []execution.Violation {
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(
			slices.CompareFunc(a.at.path(), b.at.path(), compareSteps),
			cmp.Compare(a.rule, b.rule),
			cmp.Compare(a.message, b.message),
		)
	})
	violations := make([]execution.Violation, len(findings))
	for i, f := range findings {
		violations[i] = execution.Violation{Pointer: f.at.pointer(), Rule: f.rule, Message: f.message}
	}
	return slices.Compact(violations)
}

// pointer writes a place as a JSON Pointer of at most 512 bytes.
func (p *place) pointer() string {
	const limit = 512
	var text strings.Builder
	for _, step := range p.path() {
		token := escapeToken(step.name)
		if step.index >= 0 {
			token = strconv.Itoa(step.index)
		}
		if text.Len()+1+len(token) > limit {
			break
		}
		text.WriteString("/" + token)
	}
	return text.String()
}

// escapeToken writes a name as a token of a JSON Pointer.
func escapeToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
