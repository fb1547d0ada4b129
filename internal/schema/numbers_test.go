package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestComputable(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"0": true, "-0": true, "1e400": true, "1e1000": true, "1E+1000": true, "1e-1000": true, "0.1e0001000": true,
		"1e1001": false, "1e-1001": false, "1E+999999999999": false, "0e5000": false,
		strings.Repeat("9", 1000): true, strings.Repeat("9", 1001): false,
	}
	for number, want := range tests {
		if got := computable(json.Number(number)); got != want {
			t.Errorf("computable(%.20s) is %v", number, got)
		}
	}
}

// A number that is too long is refused where the schema needs its value, and nowhere else.
func TestLongNumbers(t *testing.T) {
	t.Parallel()
	const long = "1e999999999"
	tests := map[string]struct {
		schema, document string
		want             []string
	}{
		"maximum":             {`{"maximum":3}`, long, []string{" number_too_long"}},
		"multiple":            {`{"multipleOf":3}`, long, []string{" number_too_long"}},
		"integer":             {`{"type":"integer"}`, long, []string{" number_too_long"}},
		"integer or null":     {`{"type":["integer","null"]}`, long, []string{" number_too_long"}},
		"integer or number":   {`{"type":["integer","number"]}`, long, nil},
		"number":              {`{"type":"number"}`, long, nil},
		"string":              {`{"type":"string"}`, long, []string{" type"}},
		"no rule":             {`{"title":"any"}`, long, nil},
		"true":                {`true`, long, nil},
		"const number":        {`{"const":1}`, long, []string{" number_too_long"}},
		"const text":          {`{"const":"a"}`, long, []string{" const"}},
		"enum with number":    {`{"enum":["a",1]}`, long, []string{" number_too_long"}},
		"inside a const":      {`{"const":{"a":1}}`, `{"a":` + long + `}`, []string{"/a number_too_long"}},
		"unique":              {`{"uniqueItems":true}`, `[[` + long + `],1]`, []string{"/0/0 number_too_long"}},
		"member":              {`{"properties":{"a":{"minimum":1}}}`, `{"a":` + long + `,"b":` + long + `}`, []string{"/a number_too_long"}},
		"other members":       {`{"properties":{"a":true},"additionalProperties":{"type":"integer"}}`, `{"a":` + long + `,"b":` + long + `}`, []string{"/b number_too_long"}},
		"member by pattern":   {`{"patternProperties":{"^a":{"minimum":1}}}`, `{"ab":` + long + `,"b":` + long + `}`, []string{"/ab number_too_long"}},
		"item":                {`{"prefixItems":[{"minimum":1}]}`, `[` + long + `,` + long + `]`, []string{"/0 number_too_long"}},
		"further items":       {`{"prefixItems":[{}],"items":{"minimum":1}}`, `[` + long + `,` + long + `]`, []string{"/1 number_too_long"}},
		"items of draft 7":    {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":{"minimum":1}}`, `[` + long + `,` + long + `]`, []string{"/1 number_too_long"}},
		"alternative":         {`{"anyOf":[{"type":"string"},{"exclusiveMaximum":1}]}`, long, []string{" number_too_long"}},
		"condition":           {`{"if":{"properties":{"a":{"const":1}}},"then":{}}`, `{"a":` + long + `}`, []string{"/a number_too_long"}},
		"dependent":           {`{"dependentSchemas":{"a":{"properties":{"a":{"minimum":0}}}}}`, `{"a":` + long + `}`, []string{"/a number_too_long"}},
		"recursion":           {`{"additionalProperties":{"$ref":"#"},"maximum":3}`, `{"a":{"b":` + long + `}}`, []string{"/a/b number_too_long"}},
		"unevaluated":         {`{"unevaluatedProperties":{"maximum":3}}`, `{"a":` + long + `}`, []string{"/a number_too_long"}},
		"contains":            {`{"contains":{"maximum":3}}`, `[` + long + `]`, []string{"/0 number_too_long"}},
		"many characters":     {`{"minimum":0}`, strings.Repeat("1", 1001), []string{" number_too_long"}},
		"many, never counted": {`{"items":{"type":"number"}}`, "[" + strings.Repeat(long+",", 1000) + "1]", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustCompile(t, test.schema).Validate([]byte(test.document))
			if diff := cmp.Diff(test.want, brief(got)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
