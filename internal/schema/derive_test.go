package schema

import (
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
)

type address struct {
	Zip string `json:"zip" jsonschema:"minLength=2" jsonschema_description:"Post code"`
}

type tree struct {
	Left *tree  `json:"left"`
	Kids []tree `json:"kids,omitempty"`
}

type box[T any] struct {
	Content T `json:"content"`
}

type base struct {
	ID    string `json:"id"`
	Owner *int   `json:"owner"`
}

type level int8

type color string

func (color) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Enum: []any{"red", "blue"}}
}

const draftKeyword = `"$schema":"https://json-schema.org/draft/2020-12/schema"`

func TestDerive(t *testing.T) {
	t.Parallel()
	object := func(properties, required string) string {
		return `{` + draftKeyword + `,"properties":{` + properties + `},"additionalProperties":false,"type":"object"` + required + `}`
	}
	tests := map[string]struct {
		derive func() ([]byte, error)
		want   string
	}{
		"any":         {For[any], `true`},
		"raw message": {For[json.RawMessage], `true`},
		"text":        {For[string], `{` + draftKeyword + `,"type":"string"}`},
		"time":        {For[time.Time], `{` + draftKeyword + `,"type":"string","format":"date-time"}`},
		"number":      {For[json.Number], `{` + draftKeyword + `,"type":"number"}`},
		"address":     {For[net.IP], `{` + draftKeyword + `,"type":"string"}`},
		"own schema":  {For[color], `{` + draftKeyword + `,"type":"string","enum":["red","blue"]}`},
		"small":       {For[level], `{` + draftKeyword + `,"type":"integer","maximum":127,"minimum":-128}`},
		"unsigned":    {For[uint64], `{` + draftKeyword + `,"type":"integer","minimum":0}`},
		"duration":    {For[time.Duration], `{` + draftKeyword + `,"type":"integer"}`},
		"bytes":       {For[[]byte], `{` + draftKeyword + `,"type":"string","contentEncoding":"base64"}`},
		"fixed array": {For[[2]bool], `{` + draftKeyword + `,"items":{"type":"boolean"},"type":"array","maxItems":2,"minItems":2}`},
		"open map":    {For[map[string]any], `{` + draftKeyword + `,"type":"object"}`},
		"empty":       {For[struct{}], object("", "")},
		"tags": {For[address],
			object(`"zip":{"type":"string","minLength":2,"description":"Post code"}`, `,"required":["zip"]`)},
		"pointer to struct": {For[*address],
			object(`"zip":{"type":"string","minLength":2,"description":"Post code"}`, `,"required":["zip"]`)},
		"optional fields": {For[struct {
			A int    `json:"a,omitempty"`
			B int    `json:"b,omitzero"`
			C *bool  `json:"c"`
			D any    `json:"d"`
			E string `json:"-"`
			F string
		}], object(`"a":{"type":"integer"},"b":{"type":"integer"},"c":{"anyOf":[{"type":"boolean"},{"type":"null"}]},"d":true,"F":{"type":"string"}`,
			`,"required":["d","F"]`)},
		"embedded": {For[struct {
			base
			Name string `json:"name"`
		}], object(`"id":{"type":"string"},"owner":{"anyOf":[{"type":"integer"},{"type":"null"}]},"name":{"type":"string"}`,
			`,"required":["id","name"]`)},
		"recursive": {For[tree], `{` + draftKeyword + `,"$ref":"#/$defs/tree","$defs":{"tree":{"properties":{` +
			`"left":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"kids":{"items":{"$ref":"#/$defs/tree"},"type":"array"}` +
			`},"additionalProperties":false,"type":"object"}}}`},
		"generic": {For[box[box[int]]], `{` + draftKeyword + `,"$defs":{"box2":{"properties":{"content":{"type":"integer"}},` +
			`"additionalProperties":false,"type":"object","required":["content"]}},"properties":{"content":{"$ref":"#/$defs/box2"}},` +
			`"additionalProperties":false,"type":"object","required":["content"]}`},
		"map of pointers": {For[map[string]struct{ A *int }], `{` + draftKeyword + `,"additionalProperties":{"properties":{` +
			`"A":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"additionalProperties":false,"type":"object"},"type":"object"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.derive()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
			mustCompile(t, string(got))
		})
	}
}

func TestDeriveRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]func() ([]byte, error){
		"channel":           For[chan int],
		"function in field": For[struct{ F func() }],
		"complex in map":    For[map[string][]complex128],
		"methods":           For[struct{ E error }],
		"URL":               For[struct{ U *url.URL }],
		"map key":           For[map[bool]int],
	}
	for name, derive := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := derive()
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != CodeBadType {
				t.Errorf("error is %v, want %s", err, CodeBadType)
			}
		})
	}
}

// What encoding/json writes of a value fits the schema of its type, and what fits is read back.
func TestDerivedSchemaFitsItsType(t *testing.T) {
	t.Parallel()
	type order struct {
		base
		To    address            `json:"to"`
		Also  *address           `json:"also"`
		Items map[string]float64 `json:"items"`
		Count int32              `json:"count,string"`
		Tree  *tree              `json:"tree,omitempty"`
		At    time.Time          `json:"at"`
		Extra json.RawMessage    `json:"extra"`
	}
	raw, err := For[order]()
	if err != nil {
		t.Fatal(err)
	}
	s := mustCompile(t, string(raw))
	value := order{
		base: base{ID: "o1"}, To: address{Zip: "1234"}, Items: map[string]float64{"pen": 1.5}, Count: 3,
		Tree: &tree{Left: &tree{}}, At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Extra: json.RawMessage(`[1e400]`),
	}
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if violations := s.Validate(document); violations != nil {
		t.Fatalf("%s does not fit: %v", document, violations)
	}
	var back order
	if err := json.Unmarshal(document, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value, back, cmp.AllowUnexported(order{})); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
	want := []string{"/also/zip minLength", "/more additionalProperties"}
	broken := `{"id":"o","to":{"zip":"12"},"also":{"zip":"1"},"items":{},"count":"1","at":"2026-01-02T03:04:05Z","extra":null,"more":1}`
	if diff := cmp.Diff(want, brief(s.Validate([]byte(broken)))); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
