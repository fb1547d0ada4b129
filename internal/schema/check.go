package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// check is one run over one document.
type check struct {
	facts   map[*jsonschema.Schema]facts
	steps   int       // left; negative once the run has taken too many
	found   []finding // what the document does wrong
	tooLong []finding // numbers that the run needed and could not compute with
}

// target is a value that a schema is applied to.
type target struct {
	value any
	at    *place

	// quiet asks for the verdict alone: nothing is reported, and the first failure ends the matter.
	quiet bool
}

func (t target) member(name string, value any) target {
	return target{value: value, at: t.at.member(name), quiet: t.quiet}
}

func (t target) item(index int, value any) target {
	return target{value: value, at: t.at.item(index), quiet: t.quiet}
}

func (t target) quietly() target {
	t.quiet = true
	return t
}

// spend charges the run for work, and reports whether it may go on.
func (c *check) spend(steps int) bool {
	c.steps -= steps
	return !c.over()
}

// over reports whether the run has what it needs for its answer.
func (c *check) over() bool {
	return c.steps < 0 || len(c.found) >= MaxViolations || len(c.tooLong) >= MaxViolations
}

// fail reports that a value does not meet a keyword, and returns false for the caller to pass on.
func (c *check) fail(t target, keyword, format string, args ...any) bool {
	if !t.quiet && !c.over() {
		c.found = append(c.found, finding{at: t.at, rule: keyword, message: fmt.Sprintf(format, args...)})
	}
	return false
}

// apply reports whether a value fits a schema. seen is empty, and gets what the schema has looked at in the value; it is
// nil where nobody asks.
func (c *check) apply(s *jsonschema.Schema, t target, seen *evaluated) bool {
	if !c.spend(1) {
		return false
	}
	if s.Bool != nil {
		return *s.Bool || c.fail(t, falseRule(s.Location), "is not allowed")
	}
	if seen == nil && (s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil) {
		seen = &evaluated{}
	}
	if s.Ref != nil && s.DraftVersion < 2019 {
		return c.inPlace(s.Ref, t, seen) // older drafts ignore all that stands beside a reference
	}
	if !c.value(s, t) {
		return false
	}
	fits := true
	for _, part := range [...]func(*check, *jsonschema.Schema, target, *evaluated) bool{
		(*check).scalar, (*check).object, (*check).array, (*check).references, (*check).logic, (*check).condition,
		(*check).unevaluated,
	} {
		fits = part(c, s, t, seen) && fits
		if c.over() || t.quiet && !fits {
			return false
		}
	}
	return fits
}

// falseRule names the keyword that applies a schema which allows nothing, where that tells more than the schema.
func falseRule(location string) string {
	keyword := location[strings.LastIndexByte(location, '/')+1:]
	switch keyword {
	case "unevaluatedProperties", "unevaluatedItems", "items":
		return keyword
	default:
		return RuleFalse
	}
}

// value checks the keywords that concern a value of any type. Where one of them fails the others would only repeat it.
func (c *check) value(s *jsonschema.Schema, t target) bool {
	if !c.hasType(s, t) {
		return c.fail(t, "type", "must be %v, not %v", articled(c.facts[s].types), articled{typeOf(t.value)})
	}
	if s.Const != nil && !c.equal(t.value, *s.Const, t.at) {
		return c.fail(t, "const", "must be %v", constants{*s.Const})
	}
	if s.Enum != nil && !c.listed(s.Enum.Values, t) {
		return c.fail(t, "enum", "must be one of %v", constants(s.Enum.Values))
	}
	if s.Format != nil && s.Format.Validate(t.value) != nil {
		return c.fail(t, "format", "must be a valid %v", quoted{s.Format.Name})
	}
	return true
}

func (c *check) listed(values []any, t target) bool {
	return c.spend(len(values)) && slices.ContainsFunc(values, func(value any) bool {
		return c.equal(t.value, value, t.at)
	})
}

func (c *check) hasType(s *jsonschema.Schema, t target) bool {
	types := c.facts[s].types
	if len(types) == 0 || slices.Contains(types, typeOf(t.value)) {
		return true
	}
	number, ok := t.value.(json.Number)
	return ok && slices.Contains(types, "integer") && c.integer(number, t.at)
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}
