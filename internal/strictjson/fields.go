package strictjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Field is one member of an object.
type Field struct {
	// Name is the member's name, unescaped.
	Name string

	// Value is the member's value as it stands in the document, sharing its memory.
	Value []byte
}

// Fields splits a compacted object into its members, in their order and without touching their bytes. It returns an
// [*Error] with [CodeNotObject] for any other value.
func Fields(compact []byte) ([]Field, error) {
	if len(compact) == 0 || compact[0] != '{' {
		return nil, &Error{Code: CodeNotObject}
	}
	var fields []Field
	decoder := jsontext.NewDecoder(bytes.NewBuffer(compact))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, located(err)
	}
	for decoder.PeekKind() != jsontext.KindEndObject {
		field, err := readField(decoder, compact)
		if err != nil {
			return nil, located(err)
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// readField slices the value out of the document rather than keeping what the decoder returns, since the decoder may
// reuse that memory.
func readField(decoder *jsontext.Decoder, document []byte) (Field, error) {
	name, err := decoder.ReadToken()
	if err != nil {
		return Field{}, err
	}
	field := Field{Name: name.String()}
	value, err := decoder.ReadValue()
	if err != nil {
		return Field{}, err
	}
	end := int(decoder.InputOffset())
	field.Value = document[end-len(value) : end : end]
	return field, nil
}
