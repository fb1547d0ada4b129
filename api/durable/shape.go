package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/schema"
)

// shape is what a value must be: it fits the schema, and it can be read into T. A schema can't say all that a Go type
// can, and a value that does not fit should be refused when it is sent, not by the first attempt.
type shape[T any] struct {
	schema *schema.Schema
	exact  bool // the schema was derived from T, so T knows every member
}

// shapeOf derives the schema from T, or takes the given one.
func shapeOf[T any](given json.RawMessage) (shape[T], error) {
	exact := given == nil
	if exact {
		derived, err := schema.Derive(reflect.TypeFor[T]())
		if err != nil {
			return shape[T]{}, err
		}
		given = derived
	}
	compiled, err := schema.Compile(given, schema.Limits{})
	if err != nil {
		return shape[T]{}, err
	}
	return shape[T]{schema: compiled, exact: exact}, nil
}

// JSON is the schema.
func (s shape[T]) JSON() []byte { return s.schema.JSON() }

// Validate returns the rules that the value breaks.
func (s shape[T]) Validate(value []byte) []execution.Violation {
	if broken := s.schema.Validate(value); len(broken) > 0 {
		return broken
	}
	if _, err := s.read(value); err != nil {
		return []execution.Violation{misfit(value, err)}
	}
	return nil
}

// read decodes a value that fits the schema.
func (s shape[T]) read(value []byte) (T, error) {
	var v T
	err := decode(value, &v, s.exact)
	return v, err
}

// ruleType is the rule that a value breaks which the Go type can't hold: what a schema calls its type.
const ruleType = "type"

// misfit says where a value does not fit the Go type. The text of err may come from the author's own UnmarshalJSON and is
// not shown.
func misfit(value []byte, err error) execution.Violation {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return execution.Violation{Rule: ruleType, Message: "does not fit the type that the deployment reads"}
	}
	return execution.Violation{
		Pointer: pointerAt(value, wrong.Offset),
		Rule:    ruleType,
		Message: fmt.Sprintf("does not fit the type %s that the deployment reads", wrong.Type),
	}
}
