// Package schema holds JSON documents against JSON Schemas, and derives schemas from Go types.
//
// A schema is read as draft 2020-12 unless its $schema names an older draft. Numbers are compared exactly, whatever their
// size; format is asserted. A schema stands for itself: a $ref to another document is refused, and nothing is ever loaded
// from the network or from a file. Patterns are those of Go's regexp package, which match in linear time. $dynamicRef and
// $recursiveRef are refused.
//
// Schemas are read, resolved and checked by a library; the check of a document against them is this package's own, since
// documents come from strangers: its steps and its violations are bounded, it tells where a number is too long to compute
// with instead of computing, and it says nothing of the document's values. A recursive schema with alternatives could
// otherwise take time exponential in the depth of a document.
package schema

import (
	"bytes"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/strictjson"
)

// MaxViolations is how many violations [Schema.Validate] returns at most.
const MaxViolations = 20

// Limits bounds what [Compile] accepts and what a check may cost. Zero fields mean their defaults.
type Limits struct {
	// Bytes is the size of the compacted schema. Default 65,536.
	Bytes int

	// Depth is how many objects and arrays may be nested in the schema. Default 64.
	Depth int

	// Steps is how many pairs of a value and a subschema one check may look at. Default 3,000,000, about a second. A
	// document of one megabyte stays under it with any ordinary schema.
	Steps int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 64 << 10
	}
	if l.Depth <= 0 {
		l.Depth = 64
	}
	if l.Steps <= 0 {
		l.Steps = 3_000_000
	}
	return l
}

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	source []byte
	root   *jsonschema.Schema
	facts  map[*jsonschema.Schema]facts
	steps  int
}

// Compile reads a schema. An error is an [*Error].
func Compile(raw []byte, limits Limits) (*Schema, error) {
	limits = limits.withDefaults()
	source, err := strictjson.Compact(raw, strictjson.Limits{Depth: limits.Depth})
	if err != nil {
		return nil, notJSON(err)
	}
	if len(source) > limits.Bytes {
		return nil, &Error{Code: CodeTooLarge, Message: "the schema is larger than the limit"}
	}
	document, err := decode(source)
	if err != nil {
		return nil, notJSON(err)
	}
	if err := checkNumbers(document, nil); err != nil {
		return nil, err
	}
	root, facts, err := compile(document)
	if err != nil {
		return nil, err
	}
	return &Schema{source: bytes.Clone(source), root: root, facts: facts, steps: limits.Steps}, nil
}

// JSON returns the schema as it was compiled, without insignificant white space. The caller must not change it.
func (s *Schema) JSON() []byte { return s.source }

// Validate holds a document against the schema. It returns nil if the document fits; else up to [MaxViolations]
// violations in the order of their place, the same for the same document at every call. The document must have passed the
// strictjson package, which bounds its depth; what is not JSON at all is a violation of its own.
//
// The pointer of a missing member is that of the object which lacks it; one of over 512 bytes is shortened to that of an
// enclosing value. A rule is a keyword, or one of the Rule constants. A message follows the name of the value ("must be a
// string, not a number") and holds nothing of the document.
func (s *Schema) Validate(raw []byte) []execution.Violation {
	document, err := decode(raw)
	if err != nil {
		return []execution.Violation{{Rule: RuleJSON, Message: "must be JSON"}}
	}
	c := check{facts: s.facts, steps: s.steps}
	fits := c.apply(s.root, target{value: document}, nil)
	switch {
	case c.steps < 0:
		return []execution.Violation{{Rule: RuleTooComplex, Message: "takes too long to hold against the schema"}}
	case len(c.tooLong) > 0:
		return flatten(c.tooLong)
	case fits:
		return nil
	default:
		return flatten(c.found)
	}
}

// decode keeps numbers as they are spelled.
func decode(raw []byte) (any, error) {
	return jsonschema.UnmarshalJSON(bytes.NewReader(raw))
}
