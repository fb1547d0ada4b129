package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/windrow-run/windrow/internal/strictjson"
)

// Code says why a schema is refused. The set is closed.
type Code string

// The reasons to refuse a schema.
const (
	CodeNotJSON       Code = "not_json"        // it is not strict JSON
	CodeTooLarge      Code = "too_large"       // it is larger than the limit
	CodeInvalid       Code = "invalid"         // it is not a JSON Schema
	CodeRemoteRef     Code = "remote_ref"      // it refers to another document
	CodeBadPattern    Code = "bad_pattern"     // a pattern can't be compiled, or is too large
	CodeNumberTooLong Code = "number_too_long" // a number is too long to compute with
	CodeUnsupported   Code = "unsupported"     // it uses $dynamicRef or $recursiveRef
	CodeBadType       Code = "bad_type"        // no schema can be derived from the Go type
)

// Error says why a schema can't be used. Its text is meant for the author of the schema.
type Error struct {
	Code Code

	// Pointer is the JSON Pointer of the part of the schema that is refused; empty is the whole schema.
	Pointer string
	Message string

	// Err is the cause, or nil.
	Err error
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("schema: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("schema: %s at %s: %s", e.Code, e.Pointer, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func notJSON(err error) *Error {
	refused := &Error{Code: CodeNotJSON, Message: "the schema is not valid JSON", Err: err}
	if strict, ok := errors.AsType[*strictjson.Error](err); ok {
		refused.Pointer, refused.Message = strict.Pointer, strict.Code.Rule()
	}
	return refused
}

// compileError gives an error of the compiler its code.
func compileError(err error) *Error {
	var (
		load    *jsonschema.LoadURLError
		regex   *jsonschema.InvalidRegexError
		invalid *jsonschema.SchemaValidationError
		pointer *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &load):
		return remoteRef(err)
	case errors.As(err, &regex):
		return &Error{Code: CodeBadPattern, Pointer: fragment(regex.URL), Message: regex.Err.Error(), Err: err}
	case errors.As(err, &invalid):
		return metaschemaError(invalid)
	case errors.As(err, &pointer), errors.As(err, &anchor):
		return &Error{Code: CodeInvalid, Message: "a reference names nothing in the schema", Err: err}
	default:
		return &Error{Code: CodeInvalid, Message: err.Error(), Err: err}
	}
}

func remoteRef(err error) *Error {
	return &Error{Code: CodeRemoteRef, Message: "a schema must not refer to another document", Err: err}
}

// metaschemaError tells what the schema of schemas does not allow, at the deepest place that it names: what it says of the
// places above only follows from that.
func metaschemaError(invalid *jsonschema.SchemaValidationError) *Error {
	refused := &Error{Code: CodeInvalid, Message: "it is not a JSON Schema", Err: invalid}
	var failure *jsonschema.ValidationError
	if !errors.As(invalid.Err, &failure) {
		return refused
	}
	deepest := slices.MaxFunc(leaves(failure), func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			cmp.Compare(len(a.InstanceLocation), len(b.InstanceLocation)),
			slices.Compare(b.InstanceLocation, a.InstanceLocation),
			cmp.Compare(a.SchemaURL, b.SchemaURL),
		)
	})
	for _, token := range deepest.InstanceLocation {
		refused.Pointer += "/" + escapeToken(token)
	}
	refused.Message = deepest.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if aboutPattern(deepest.ErrorKind) {
		refused.Code = CodeBadPattern
	}
	return refused
}

// leaves returns the failures that no other failure explains. The names of members explain nothing, since they have no
// place of their own.
func leaves(failure *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, ok := failure.ErrorKind.(*kind.PropertyNames); ok || len(failure.Causes) == 0 {
		return []*jsonschema.ValidationError{failure}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range failure.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// aboutPattern reports whether the schema of schemas finds fault with a pattern: a format of regex, or a name that must
// have that format.
func aboutPattern(why jsonschema.ErrorKind) bool {
	switch why := why.(type) {
	case *kind.Format:
		return why.Want == "regex"
	case *kind.PropertyNames:
		return true
	default:
		return false
	}
}

// fragment returns the JSON Pointer in a location such as base#/properties/a.
func fragment(location string) string {
	_, pointer, _ := strings.Cut(location, "#")
	return pointer
}
