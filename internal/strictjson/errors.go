package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Code names the rule that a document breaks. The set is closed.
type Code string

// The rules, one code each.
const (
	CodeEmpty         Code = "empty"
	CodeNotJSON       Code = "not_json"
	CodeDuplicateKey  Code = "duplicate_key"
	CodeTrailingData  Code = "trailing_data"
	CodeTooDeep       Code = "too_deep"
	CodeInvalidUTF8   Code = "invalid_utf8"
	CodeLoneSurrogate Code = "lone_surrogate"
	CodeNULByte       Code = "nul_byte"
	CodeByteOrderMark Code = "byte_order_mark"
	CodeNotObject     Code = "not_object"
)

// Rule says in one sentence, fit for a client, what the code asks for.
func (c Code) Rule() string {
	switch c {
	case CodeEmpty:
		return "A JSON value is required."
	case CodeDuplicateKey:
		return "The names of an object's members must differ."
	case CodeTrailingData:
		return "Nothing but white space may follow the JSON value."
	case CodeTooDeep:
		return "Objects and arrays are nested too deeply."
	case CodeInvalidUTF8:
		return "The document must be valid UTF-8."
	case CodeLoneSurrogate:
		return "A \\u escape must not name half of a surrogate pair."
	case CodeNULByte:
		return "A NUL byte is not allowed."
	case CodeByteOrderMark:
		return "A byte order mark is not allowed."
	case CodeNotObject:
		return "The document must be a JSON object."
	default:
		return "The document is not valid JSON."
	}
}

// Error says which rule a document breaks, and where. It holds no part of the document but the member names on the
// pointer.
type Error struct {
	Code Code

	// Offset is the position in bytes of the first byte that can't be accepted. For a duplicate name it is where the
	// second name starts; for a document that ends too early it is at or before its end.
	Offset int64

	// Pointer is the JSON Pointer (RFC 6901) of the value that the error lies in, shortened to an enclosing value where
	// it would be longer than 512 bytes. Empty is the whole document.
	Pointer string
}

func (e *Error) Error() string {
	return fmt.Sprintf("strictjson: %s at byte %d in %q", e.Code, e.Offset, e.Pointer)
}

// diagnose finds the first error of a document that is known to be invalid. It is apart from the check itself so that
// valid documents pay for no decoder.
func diagnose(raw []byte) *Error {
	strict, trailing := firstError(raw)
	if trailing {
		strict.Code = CodeTrailingData
		if byteAt(raw, strict.Offset) == 0 {
			strict.Code = CodeNULByte
		}
		return strict
	}
	if strict.Code == CodeNotJSON {
		strict.Code = classify(raw, strict.Offset)
	}
	return strict
}

// classify tells apart the errors which the parser reports as text only. An error that goes away, or moves on, when
// invalid UTF-8 is allowed is one of encoding; such an error at an escape is a lone surrogate.
func classify(raw []byte, offset int64) Code {
	if byteAt(raw, offset) == 0 {
		return CodeNULByte
	}
	lenient, trailing := firstError(raw, jsontext.AllowInvalidUTF8(true))
	if lenient != nil && !trailing && lenient.Offset <= offset {
		return CodeNotJSON
	}
	if byteAt(raw, offset) == '\\' {
		return CodeLoneSurrogate
	}
	return CodeInvalidUTF8
}

// firstError returns where the parser stops, or nil; trailing tells that a complete value stands before that place.
func firstError(raw []byte, opts ...jsontext.Options) (err *Error, trailing bool) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw), opts...)
	if _, err := decoder.ReadValue(); err != nil {
		return located(err), false
	}
	end := decoder.InputOffset()
	if _, err := decoder.ReadToken(); errors.Is(err, io.EOF) {
		return nil, false
	}
	rest := bytes.TrimLeft(raw[end:], " \t\r\n")
	return &Error{Code: CodeNotJSON, Offset: int64(len(raw) - len(rest))}, true
}

// located turns an error of the parser into ours, with [CodeNotJSON] for all but duplicate names.
func located(err error) *Error {
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return &Error{Code: CodeNotJSON}
	}
	located := &Error{Code: CodeNotJSON, Offset: syntactic.ByteOffset, Pointer: bounded(syntactic.JSONPointer)}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		located.Code = CodeDuplicateKey
	}
	return located
}

// byteAt returns the byte at offset, or a space beyond the end.
func byteAt(raw []byte, offset int64) byte {
	if offset >= int64(len(raw)) {
		return ' '
	}
	return raw[offset]
}

// pointerAt returns the pointer of the value that starts at offset, as far as the document is valid up to there.
func pointerAt(raw []byte, offset int) string {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for decoder.InputOffset() <= int64(offset) {
		if _, err := decoder.ReadToken(); err != nil {
			break
		}
	}
	return bounded(decoder.StackPointer())
}

// bounded shortens a pointer to that of an enclosing value until it has at most 512 bytes.
func bounded(pointer jsontext.Pointer) string {
	const limit = 512
	for len(pointer) > limit {
		pointer = pointer.Parent()
	}
	return string(pointer)
}
