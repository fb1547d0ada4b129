package schema

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// The verdict on any document is that of the library's own check, which has passed the official test suite of JSON Schema.
func TestVerdictIsTheLibrarys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draft := rapid.SampledFrom([]string{"", "2019-09", "07"}).Draw(t, "draft")
		raw := encode(t, drawRoot(t, draft))
		document := encode(t, drawValue(t, 3))
		s, err := Compile(raw, Limits{})
		if err != nil {
			t.Fatalf("schema %s: %v", raw, err)
		}
		want := s.root.Validate(must(decode(document))) == nil
		violations := s.Validate(document)
		if got := violations == nil; got != want {
			t.Fatalf("schema %s\ndocument %s\nfits is %v, want %v: %v", raw, document, got, want, violations)
		}
	})
}

// Whatever the bytes, nothing panics, a refusal has a code, and an accepted schema answers within bounds.
func FuzzCompileAndValidate(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"minimum":0.1}}}`), []byte(`{"a":1e400}`))
	f.Add([]byte(`{"anyOf":[{"pattern":"^a"},{"items":{"enum":[1,"x",null]}}],"uniqueItems":true}`), []byte(`[1,1.0]`))
	f.Add([]byte(`{"$id":"https://example.com/a","$ref":"b","$defs":{"b":{"$id":"b","$anchor":"c"}}}`), []byte(`null`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","items":[{}]}`), []byte(`1e99999`))
	f.Fuzz(func(t *testing.T, raw, document []byte) {
		s, err := Compile(raw, Limits{Steps: 100_000})
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || refused.Code == "" {
				t.Fatalf("refused without a code: %v", err)
			}
			return
		}
		violations := s.Validate(document)
		if len(violations) > MaxViolations {
			t.Fatalf("%d violations", len(violations))
		}
		for _, v := range violations {
			if v.Rule == "" || v.Message == "" {
				t.Fatalf("empty violation %+v", v)
			}
		}
	})
}

func must(value any, err error) any {
	if err != nil {
		panic(err)
	}
	return value
}

func encode(t *rapid.T, value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "ab", "c"}).Draw(t, "name")
}

func drawScalar(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, false, "", "a", "ab", "2026-01-02", json.Number("0"), json.Number("-0"), json.Number("1"), json.Number("1.0"),
		json.Number("2"), json.Number("0.3"), json.Number("1e400"), json.Number("9007199254740993"), json.Number("10e-1"),
	}).Draw(t, "scalar")
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || kind <= 1 {
		return drawScalar(t)
	}
	size := rapid.IntRange(0, 3).Draw(t, "size")
	if kind == 2 {
		array := make([]any, size)
		for i := range array {
			array[i] = drawValue(t, depth-1)
		}
		return array
	}
	object := map[string]any{}
	for range size {
		object[drawName(t)] = drawValue(t, depth-1)
	}
	return object
}

// drawRoot draws a schema with one definition, which refers to nothing so that no reference is endless.
func drawRoot(t *rapid.T, draft string) any {
	schema := drawSchema(t, 3, draft, true).(map[string]any)
	schema["$defs"] = map[string]any{"d": drawSchema(t, 2, draft, false)}
	switch draft {
	case "07":
		schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	case "2019-09":
		schema["$schema"] = "https://json-schema.org/draft/2019-09/schema"
	}
	return schema
}

// drawSchema draws an object of up to four keywords, whose subschemas are of one level less.
func drawSchema(t *rapid.T, depth int, draft string, refs bool) any {
	if depth == 0 {
		return rapid.SampledFrom([]any{true, false, map[string]any{"type": "number"}, map[string]any{"type": "string"}}).Draw(t, "leaf")
	}
	schema := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "keywords") {
		switch keyword := rapid.SampledFrom(keywords(draft)).Draw(t, "keyword"); {
		case keyword == "tuple":
			schema["items"] = drawKeyword(t, keyword, depth-1, draft, refs) // as drafts before 2020-12 have it
		case keyword == "$ref" && draft == "07":
			continue // the library does not ignore all of what stands beside it
		case keyword != "$ref" || refs:
			schema[keyword] = drawKeyword(t, keyword, depth-1, draft, refs)
		}
	}
	return schema
}

func keywords(draft string) []string {
	shared := []string{
		"type", "const", "enum", "format", "minimum", "exclusiveMaximum", "multipleOf", "minLength", "pattern", "minItems",
		"uniqueItems", "maxProperties", "required", "properties", "patternProperties", "additionalProperties", "propertyNames",
		"contains", "not", "allOf", "anyOf", "oneOf", "if", "then", "else", "items", "$ref",
	}
	switch draft {
	case "07":
		return append(shared, "dependencies", "tuple", "additionalItems")
	case "2019-09":
		return append(shared, "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minContains", "tuple", "additionalItems")
	default:
		return append(shared, "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minContains", "maxContains", "prefixItems")
	}
}

func drawKeyword(t *rapid.T, keyword string, depth int, draft string, refs bool) any {
	sub := func() any { return drawSchema(t, depth, draft, refs) }
	switch keyword {
	case "type":
		return rapid.SampledFrom([]any{"null", "integer", "number", "string", "array", "object", []any{"integer", "object"}}).Draw(t, "type")
	case "const":
		return drawValue(t, 2)
	case "enum":
		return []any{drawScalar(t), []any{drawScalar(t)}, "x y"}
	case "format":
		return rapid.SampledFrom([]string{"date", "regex", "unknown"}).Draw(t, "format")
	case "minimum", "exclusiveMaximum":
		return rapid.SampledFrom([]any{json.Number("0"), json.Number("0.3"), json.Number("1e399")}).Draw(t, "bound")
	case "multipleOf":
		return rapid.SampledFrom([]any{json.Number("0.1"), json.Number("2")}).Draw(t, "factor")
	case "minLength", "minItems", "maxProperties", "minContains", "maxContains":
		return rapid.IntRange(0, 2).Draw(t, "count")
	case "pattern":
		return "^a"
	case "uniqueItems":
		return true
	case "required":
		return []string{drawName(t)}
	case "properties", "dependentSchemas":
		return map[string]any{drawName(t): sub(), "b": sub()}
	case "patternProperties":
		return map[string]any{"^a": sub(), "b$": sub()}
	case "dependentRequired":
		return map[string]any{drawName(t): []string{drawName(t)}}
	case "dependencies":
		return map[string]any{"a": []string{drawName(t)}, "b": sub()}
	case "allOf", "anyOf", "oneOf", "prefixItems", "tuple":
		return []any{sub(), sub()}
	case "$ref":
		return "#/$defs/d"
	default:
		return sub()
	}
}
