package schema

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
)

func mustCompile(tb testing.TB, raw string) *Schema {
	tb.Helper()
	s, err := Compile([]byte(raw), Limits{})
	if err != nil {
		tb.Fatalf("Compile(%s): %v", raw, err)
	}
	return s
}

// brief writes violations as "pointer rule" pairs.
func brief(violations []execution.Violation) []string {
	var texts []string
	for _, v := range violations {
		texts = append(texts, v.Pointer+" "+v.Rule)
	}
	return texts
}

func TestValidate(t *testing.T) {
	t.Parallel()
	approval := `{"type":"object","properties":{"approved":{"type":"boolean"},"note":{"type":"string","maxLength":5}},
		"required":["approved"],"additionalProperties":false}`
	tests := map[string]struct {
		schema, document string
		want             []string
	}{
		"fits":                      {approval, `{"approved":true,"note":"ok"}`, nil},
		"wrong type":                {approval, `{"approved":"yes"}`, []string{"/approved type"}},
		"missing":                   {approval, `{}`, []string{" required"}},
		"unknown member":            {approval, `{"approved":true,"a/b~":1}`, []string{"/a~1b~0 additionalProperties"}},
		"several, in order":         {approval, `{"note":"too long","z":1,"a":1}`, []string{" required", "/a additionalProperties", "/note maxLength", "/z additionalProperties"}},
		"wrong document":            {approval, `[]`, []string{" type"}},
		"not JSON":                  {approval, `{`, []string{" json"}},
		"anything":                  {`true`, `{"a":[1e400]}`, nil},
		"nothing":                   {`false`, `1`, []string{" false"}},
		"neighbour above 2^53":      {`{"const":9007199254740993}`, `9007199254740992`, []string{" const"}},
		"itself above 2^53":         {`{"const":9007199254740993}`, `9007199254740993`, nil},
		"other spelling":            {`{"const":9007199254740993}`, `9007199254740993.0`, nil},
		"enum above 2^53":           {`{"enum":[9007199254740993]}`, `9007199254740994`, []string{" enum"}},
		"multiple of a tenth":       {`{"multipleOf":0.1}`, `0.3`, nil},
		"not a multiple of a tenth": {`{"multipleOf":0.1}`, `0.35`, []string{" multipleOf"}},
		"beyond a double, too much": {`{"maximum":1e300}`, `1e400`, []string{" maximum"}},
		"beyond a double, in range": {`{"maximum":1e401}`, `1e400`, nil},
		"beyond a double, integer":  {`{"type":"integer"}`, `1e400`, nil},
		"tiny is no integer":        {`{"type":"integer"}`, `1e-400`, []string{" type"}},
		"negative zero":             {`{"minimum":0}`, `-0`, nil},
		"items in numeric order":    {`{"items":{"type":"string"}}`, `["","","","","","","","","",9,10]`, []string{"/9 type", "/10 type"}},
		"format":                    {`{"format":"date-time"}`, `"yesterday"`, []string{" format"}},
		"format fits":               {`{"format":"date-time"}`, `"2026-01-02T03:04:05Z"`, nil},
		"pattern":                   {`{"pattern":"^a+$"}`, `"b"`, []string{" pattern"}},
		"local reference":           {`{"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}}`, `1`, []string{" type"}},
		"reference by anchor":       {`{"$ref":"#a","$defs":{"a":{"$anchor":"a","type":"null"}}}`, `1`, []string{" type"}},
		"recursive reference":       {`{"type":"object","additionalProperties":{"$ref":"#"}}`, `{"a":{"b":1}}`, []string{"/a/b type"}},
		"all of":                    {`{"allOf":[{"type":"string"},{"minLength":3}]}`, `"a"`, []string{" minLength"}},
		"any of":                    {`{"anyOf":[{"minimum":3},{"maximum":1}]}`, `2`, []string{" anyOf"}},
		"any of, nullable":          {`{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"null"}]}`, `{"a":1}`, []string{"/a type"}},
		"one of, two fit":           {`{"oneOf":[{"minimum":1},{"maximum":3}]}`, `2`, []string{" oneOf"}},
		"one of, by reference":      {`{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{"a":{"type":"null"},"b":{"required":["x"]}}}`, `{}`, []string{" required"}},
		"not":                       {`{"not":{"type":"string"}}`, `"a"`, []string{" not"}},
		"if then":                   {`{"if":{"type":"string"},"then":{"minLength":2},"else":false}`, `"a"`, []string{" minLength"}},
		"if else":                   {`{"if":{"type":"string"},"then":{"minLength":2},"else":false}`, `1`, []string{" false"}},
		"unique":                    {`{"uniqueItems":true}`, `[1,1.0]`, []string{" uniqueItems"}},
		"contains":                  {`{"contains":{"type":"null"}}`, `[1]`, []string{" contains"}},
		"member names":              {`{"properties":{"a":{"propertyNames":{"maxLength":1}},"b":{"type":"string"}}}`, `{"a":{"long":1},"b":2}`, []string{"/a/long propertyNames", "/b type"}},
		"dependent members":         {`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{" dependentRequired"}},
		"unevaluated":               {`{"properties":{"a":true},"unevaluatedProperties":false}`, `{"a":1,"b":2}`, []string{"/b unevaluatedProperties"}},
		"draft 7, reference alone":  {`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","const":1,"definitions":{"a":{"type":"string"}}}`, `"x"`, nil},
		"draft 7":                   {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"null"}],"additionalItems":false}`, `[null,1]`, []string{" additionalItems"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustCompile(t, test.schema).Validate([]byte(test.document))
			if diff := cmp.Diff(test.want, brief(got)); diff != "" {
				t.Errorf("violations (-want +got):\n%s\n%+v", diff, got)
			}
		})
	}
}

// A message says what the value must be.
func TestMessages(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ schema, document, want string }{
		"type":            {`{"type":["integer","null"]}`, `"x"`, `must be null or an integer, not a string`},
		"enum":            {`{"enum":["a",1,null]}`, `2`, `must be one of "a", 1, null`},
		"const":           {`{"const":{"a":[1.50]}}`, `2`, `must be {"a":[1.50]}`},
		"minimum":         {`{"minimum":0.1}`, `0`, `must be at least 0.1`},
		"maximum":         {`{"maximum":9007199254740993}`, `1e300`, `must be at most 9007199254740993`},
		"huge maximum":    {`{"maximum":1e999}`, `1e1000`, `must be at most the bound that the schema sets`},
		"tiny minimum":    {`{"exclusiveMinimum":1e-999}`, `0`, `must be more than the bound that the schema sets`},
		"multiple":        {`{"multipleOf":0.25}`, `0.3`, `must be a multiple of 0.25`},
		"length":          {`{"maxLength":2}`, `"äöü"`, `must have at most 2 characters, not 3`},
		"items":           {`{"minItems":1}`, `[]`, `must have at least 1 items, not 0`},
		"members":         {`{"maxProperties":0}`, `{"a":1}`, `must have at most 0 members, not 1`},
		"required":        {`{"required":["note"]}`, `{}`, `must have the member "note"`},
		"pattern":         {`{"pattern":"^a"}`, `"b"`, `must match the pattern "^a"`},
		"format":          {`{"format":"uuid"}`, `"b"`, `must be a valid "uuid"`},
		"unique":          {`{"uniqueItems":true}`, `[1,2,1]`, `must have no equal items, but 0 and 2 are`},
		"dependent":       {`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `must have the member "b" beside "a"`},
		"tail":            {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":false}`, `[0,1,2]`, `must have at most 1 items, not 3`},
		"enough of them":  {`{"contains":{"type":"null"},"minContains":2}`, `[null]`, `must have at least 2 items that fit the schema under contains, not 1`},
		"too many":        {`{"contains":{"type":"null"},"maxContains":1}`, `[null,null]`, `must have at most 1 items that fit the schema under contains, not 2`},
		"old dependency":  {`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, `must have the member "b" beside "a"`},
		"unknown to us":   {`{"properties":{"a":{"enum":["` + strings.Repeat("x", 300) + `"]}}}`, `{"a":1}`, `must be one of the values that the schema lists`},
		"too deep in not": {`{"not":{}}`, `1`, `must not fit the schema under not`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustCompile(t, test.schema).Validate([]byte(test.document))
			if len(got) != 1 || got[0].Message != test.want {
				t.Errorf("got %+v, want the message %q", got, test.want)
			}
		})
	}
}

// Nothing of a document's values comes back, whichever rule they break.
func TestMessagesHoldNoValue(t *testing.T) {
	t.Parallel()
	secret := "s3cr3t"
	schemas := []string{
		`{"type":"null"}`, `{"const":1}`, `{"enum":["a"]}`, `{"pattern":"^$"}`, `{"format":"email"}`, `{"maxLength":1}`,
		`{"not":{"type":"string"}}`, `{"anyOf":[{"const":1},{"const":2}]}`, `false`,
	}
	for _, raw := range schemas {
		violations := mustCompile(t, raw).Validate([]byte(`"` + secret + `"`))
		if text := fmt.Sprint(violations); len(violations) == 0 || strings.Contains(text, secret) {
			t.Errorf("%s: %s", raw, text)
		}
	}
}

// A document of any size and any number of faults gives a short answer, and always the same.
func TestViolationsAreBoundedAndOrdered(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"additionalProperties":{"type":"string"},"required":["z1","z2"]}`)
	var members []string
	for i := range 1000 {
		members = append(members, fmt.Sprintf(`"m%d":1`, i))
	}
	members = append(members, `"`+strings.Repeat("n", 5000)+`":1`)
	document := []byte("{" + strings.Join(members, ",") + "}")
	first := s.Validate(document)
	if len(first) != MaxViolations {
		t.Fatalf("%d violations, want %d", len(first), MaxViolations)
	}
	for range 5 {
		if diff := cmp.Diff(first, s.Validate(document)); diff != "" {
			t.Fatalf("another answer (-first +now):\n%s", diff)
		}
	}
	for _, v := range first {
		if len(v.Pointer) > 512 || len(v.Message) > 512 {
			t.Errorf("unbounded violation: %.100v", v)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schema string
		want   Error
	}{
		"not JSON":          {`{"type":`, Error{Code: CodeNotJSON, Pointer: "/type"}},
		"duplicate keyword": {`{"type":"null","type":"string"}`, Error{Code: CodeNotJSON, Pointer: "/type"}},
		"too deep":          {strings.Repeat(`{"not":`, 65) + "true" + strings.Repeat("}", 65), Error{Code: CodeNotJSON, Pointer: strings.Repeat("/not", 64)}},
		"too large":         {`{"description":"` + strings.Repeat("x", 64<<10) + `"}`, Error{Code: CodeTooLarge}},
		"not a schema":      {`[]`, Error{Code: CodeInvalid}},
		"unknown type":      {`{"properties":{"a":{"type":"text"}}}`, Error{Code: CodeInvalid, Pointer: "/properties/a/type"}},
		"remote reference":  {`{"$ref":"https://example.com/schema"}`, Error{Code: CodeRemoteRef}},
		"relative":          {`{"$ref":"other.json"}`, Error{Code: CodeRemoteRef}},
		"file":              {`{"$ref":"file:///etc/hostname"}`, Error{Code: CodeRemoteRef}},
		"schema of schemas": {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, Error{Code: CodeRemoteRef}},
		"own dialect":       {`{"$schema":"https://example.com/dialect"}`, Error{Code: CodeRemoteRef}},
		"dangling":          {`{"$ref":"#/$defs/none"}`, Error{Code: CodeInvalid}},
		"dangling anchor":   {`{"$ref":"#none"}`, Error{Code: CodeInvalid}},
		"lookahead":         {`{"pattern":"(?=a)"}`, Error{Code: CodeBadPattern, Pointer: "/pattern"}},
		"large pattern":     {`{"pattern":"(\\pL{30}x){30}\\pL{900}\\pL{900}\\pL{900}\\pL{900}"}`, Error{Code: CodeBadPattern, Pointer: "/pattern"}},
		"long pattern":      {`{"pattern":"` + strings.Repeat("a", 1001) + `"}`, Error{Code: CodeBadPattern, Pointer: "/pattern"}},
		"long number":       {`{"maximum":1` + strings.Repeat("0", 1000) + `}`, Error{Code: CodeNumberTooLong, Pointer: "/maximum"}},
		"large exponent":    {`{"properties":{"a":{"const":[1e1001]}}}`, Error{Code: CodeNumberTooLong, Pointer: "/properties/a/const/0"}},
		"large count":       {`{"minLength":9007199254740992}`, Error{Code: CodeInvalid, Pointer: "/minLength"}},
		"endless":           {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, Error{Code: CodeInvalid, Pointer: "/$defs/a"}},
		"member pattern":    {`{"patternProperties":{"(?=a)":true}}`, Error{Code: CodeBadPattern, Pointer: "/patternProperties"}},
		"dynamic reference": {`{"properties":{"a":{"$dynamicRef":"#a"}},"$dynamicAnchor":"a"}`, Error{Code: CodeUnsupported, Pointer: "/properties/a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile([]byte(test.schema), Limits{})
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("error is %v, want %s", err, test.want.Code)
			}
			if got.Code != test.want.Code || got.Pointer != test.want.Pointer {
				t.Errorf("got %v, want %s at %q", got, test.want.Code, test.want.Pointer)
			}
			if got.Message == "" || !strings.Contains(err.Error(), string(got.Code)) {
				t.Errorf("error %q says nothing", err)
			}
		})
	}
}

// JSON gives back what was compiled.
func TestJSON(t *testing.T) {
	t.Parallel()
	raw := []byte(` { "maximum" : 1.50 } `)
	s := mustCompile(t, string(raw))
	if got := string(s.JSON()); got != `{"maximum":1.50}` {
		t.Errorf("JSON is %s", got)
	}
}

// A schema whose alternatives all go down the same members takes exponential time unless it is stopped.
func TestExponentialSchemaIsStopped(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"type":"object","anyOf":[{"properties":{"c":{"$ref":"#"}}},{"properties":{"c":{"$ref":"#"}}}]}`)
	document := strings.Repeat(`{"c":`, 100) + "null" + strings.Repeat("}", 100)
	want := []string{" too_complex"}
	if diff := cmp.Diff(want, brief(s.Validate([]byte(document)))); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if got := s.Validate([]byte(`{"a":1}`)); got != nil {
		t.Errorf("the next check fails: %v", got)
	}
}

// A large document and an ordinary schema stay within the budget.
func TestLargeDocument(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items":{"anyOf":[{"type":"string"},{"type":"number","maximum":10}]}}`)
	document := "[" + strings.Repeat("1,", 400_000) + "1]"
	if got := s.Validate([]byte(document)); got != nil {
		t.Errorf("violations: %v", got)
	}
}

// Checks that run at the same time don't share state.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items":{"type":"integer"}}`)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			document := fmt.Sprintf("[%s%q]", strings.Repeat("1,", i), "x")
			want := []string{fmt.Sprintf("/%d type", i)}
			if diff := cmp.Diff(want, brief(s.Validate([]byte(document)))); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
	group.Wait()
}
