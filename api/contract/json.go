package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Timestamp is a time as the contract writes it: RFC 3339 in UTC with milliseconds.
type Timestamp struct{ time.Time }

const timestampLayout = "2006-01-02T15:04:05.000Z"

var errYear = errors.New("the year is outside 0 to 9999")

// MarshalJSON implements [json.Marshaler].
func (t Timestamp) MarshalJSON() ([]byte, error) {
	utc := t.UTC()
	if year := utc.Year(); year < 0 || year > 9999 {
		return nil, errYear
	}
	return utc.AppendFormat(nil, `"`+timestampLayout+`"`), nil
}

// Encode writes a value of this package as JSON, without a newline. Every byte of a [JSON] that is compact comes out as it
// is.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
