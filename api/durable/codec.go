package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/windrow-run/windrow/internal/strictjson"
)

// anyDepth leaves the limit on nesting to the runtime, which knows the setting; this is what the parser itself takes.
const anyDepth = 10_000

// encode renders a value of the author's as strict, compact JSON. Characters are not escaped for HTML and the bytes of a
// json.RawMessage stay as they are, but for insignificant white space: what came in goes out unchanged.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return strictjson.Compact(b.Bytes(), strictjson.Limits{Depth: anyDepth})
}

// decode reads one value. Where exact, members that the type does not have are refused.
func decode(data []byte, into any, exact bool) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if exact {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}

// pointerAt is the JSON Pointer of the value in data that ends at offset, empty where there is none.
func pointerAt(data []byte, offset int64) string {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for dec.InputOffset() < offset {
		if _, err := dec.ReadToken(); err != nil {
			return ""
		}
	}
	return string(dec.StackPointer())
}
