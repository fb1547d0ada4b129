package hayhooks

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Binding is what an idempotency key is bound to: the input or answer in a body of strict JSON, whatever the order of its members and
// the escapes of its strings. Numbers count as they are spelled, so that no two are confused. No body of another route
// is bound alike.
func Binding(body []byte) ([]byte, error) {
	value := jsontext.Value(append([]byte(nil), body...))
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, fmt.Errorf("hayhooks: order a body: %w", err)
	}
	return append(append([]byte(`{"hayhooks":`), value...), '}'), nil
}
