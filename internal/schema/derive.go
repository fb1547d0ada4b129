package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/windrow-run/windrow/internal/strictjson"
)

// For derives the schema of T; see [Derive].
func For[T any]() ([]byte, error) { return Derive(reflect.TypeFor[T]()) }

// Derive returns the JSON Schema of what encoding/json reads into a Go type.
//
// A struct is an object without further members. A field is required unless it is tagged omitempty or omitzero, or is a
// pointer; a pointer may also be null. An interface, json.RawMessage, or a type with its own UnmarshalJSON is any value; a
// type with its own UnmarshalText is a string. Small and unsigned integers have their bounds. The tags jsonschema and
// jsonschema_description add keywords, and a method JSONSchema replaces what is derived, as the invopop/jsonschema
// package has it. The schema refers to nothing outside itself. A type that encoding/json can't read (a channel, a
// function, a complex number) is an [*Error] with [CodeBadType].
func Derive(t reflect.Type) ([]byte, error) {
	d := deriver{names: map[reflect.Type]string{}, taken: map[string]bool{}}
	if err := d.check(t, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	reflector := jsonschema.Reflector{Anonymous: true, Mapper: mapped, Namer: d.name}
	derived := reflector.ReflectFromType(elem(t))
	d.pointers(elem(t), derived, derived.Definitions, map[*jsonschema.Schema]bool{})
	raw, err := json.Marshal(derived)
	if reflect.DeepEqual(derived, &jsonschema.Schema{Version: derived.Version, Definitions: jsonschema.Definitions{}}) {
		return []byte("true"), nil
	}
	if err == nil && bytes.Count(raw, []byte(strconv.Quote(derived.Ref))) == 1 {
		raw, err = json.Marshal(expanded(derived))
	}
	if err == nil {
		raw, err = strictjson.Compact(raw, strictjson.Limits{})
	}
	if err != nil {
		return nil, &Error{Code: CodeBadType, Message: "the schema of " + t.String() + " can't be written", Err: err}
	}
	return raw, nil
}

// expanded puts the definition that a schema consists of in its place.
func expanded(s *jsonschema.Schema) *jsonschema.Schema {
	name := strings.TrimPrefix(s.Ref, definitions)
	root := *s.Definitions[name]
	root.Version, root.Definitions = s.Version, maps.Clone(s.Definitions)
	delete(root.Definitions, name)
	return &root
}

// definitions is what references to definitions begin with.
const definitions = "#/$defs/"

// deriver names the definitions of one schema.
type deriver struct {
	names map[reflect.Type]string
	taken map[string]bool
}

// name gives each named type a definition of its own: two packages may have a type of the same name, and the name of a
// generic type holds characters that need escapes in a reference.
func (d *deriver) name(t reflect.Type) string {
	if name, ok := d.names[t]; ok {
		return name
	}
	base, _, _ := strings.Cut(t.Name(), "[")
	name := base
	for i := 2; base != "" && d.taken[name]; i++ {
		name = base + strconv.Itoa(i)
	}
	d.names[t], d.taken[name] = name, true
	return name
}

// check refuses the types that encoding/json can't read a document into.
func (d *deriver) check(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || opaque(t) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map:
		if !readableKey(t.Key()) {
			return noForm(t)
		}
		return d.check(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return d.check(t.Elem(), seen)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return noForm(t)
		}
	case reflect.Struct:
		if t == reflect.TypeFor[url.URL]() {
			return noForm(t)
		}
		for field := range fields(t) {
			if err := d.check(field.Type, seen); err != nil {
				return err
			}
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return noForm(t)
	default:
	}
	return nil
}

func noForm(t reflect.Type) *Error {
	return &Error{Code: CodeBadType, Message: fmt.Sprintf("encoding/json can't read a %s", t)}
}

func readableKey(t reflect.Type) bool {
	return t.Kind() == reflect.String || implements[encoding.TextUnmarshaler](t) ||
		reflect.Int <= t.Kind() && t.Kind() <= reflect.Uint64
}

// fields yields the fields of a struct that encoding/json reads, embedded ones as they stand.
func fields(t reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for field := range t.Fields() {
			if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
				continue
			}
			if !yield(field) {
				return
			}
		}
	}
}

// opaque reports whether encoding/json leaves a type to its own methods.
func opaque(t reflect.Type) bool {
	return implements[json.Unmarshaler](t) || implements[encoding.TextUnmarshaler](t) || implements[described](t)
}

// described is implemented by types that bring their own schema.
type described interface{ JSONSchema() *jsonschema.Schema }

// extended is implemented by types that change their derived schema.
type extended interface{ JSONSchemaExtend(*jsonschema.Schema) }

func implements[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// mapped returns the schema of the types that the reflector knows nothing of, or nil.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch {
	case implements[described](t), implements[extended](t):
		return nil
	case t == reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case implements[json.Unmarshaler](t):
		return &jsonschema.Schema{}
	case implements[encoding.TextUnmarshaler](t):
		return &jsonschema.Schema{Type: "string"}
	default:
		return integer(t.Kind())
	}
}

// integer returns the schema of an integer type with bounds that a sender is likely to meet, or nil.
func integer(kind reflect.Kind) *jsonschema.Schema {
	switch kind {
	case reflect.Int8:
		return between(math.MinInt8, math.MaxInt8)
	case reflect.Int16:
		return between(math.MinInt16, math.MaxInt16)
	case reflect.Int32:
		return between(math.MinInt32, math.MaxInt32)
	case reflect.Uint8:
		return between(0, math.MaxUint8)
	case reflect.Uint16:
		return between(0, math.MaxUint16)
	case reflect.Uint32:
		return between(0, math.MaxUint32)
	case reflect.Uint, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	default:
		return nil
	}
}

func between(least, most int64) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type:    "integer",
		Minimum: json.Number(strconv.FormatInt(least, 10)),
		Maximum: json.Number(strconv.FormatInt(most, 10)),
	}
}

func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// pointers makes the fields that are pointers optional and nullable, which the reflector leaves out.
func (d *deriver) pointers(t reflect.Type, s *jsonschema.Schema, defs jsonschema.Definitions, done map[*jsonschema.Schema]bool) {
	if name, ok := strings.CutPrefix(s.Ref, definitions); ok {
		s = defs[name]
	}
	if s == nil || done[s] || opaque(t) {
		return
	}
	done[s] = true
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			d.pointers(elem(t.Elem()), s.Items, defs, done)
		}
	case reflect.Map:
		if s.AdditionalProperties != nil {
			d.pointers(elem(t.Elem()), s.AdditionalProperties, defs, done)
		}
	case reflect.Struct:
		d.pointerFields(t, s, defs, done)
	default:
	}
}

func (d *deriver) pointerFields(t reflect.Type, s *jsonschema.Schema, defs jsonschema.Definitions, done map[*jsonschema.Schema]bool) {
	for field := range fields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" && elem(field.Type).Kind() == reflect.Struct {
			d.pointerFields(elem(field.Type), s, defs, done)
			continue
		}
		if name == "" {
			name = field.Name
		}
		property, ok := s.Properties.Get(name)
		if !ok {
			continue
		}
		d.pointers(elem(field.Type), property, defs, done)
		if field.Type.Kind() == reflect.Pointer {
			s.Required = slices.DeleteFunc(s.Required, func(required string) bool { return required == name })
			s.Properties.Set(name, nullable(property))
		}
	}
}

func nullable(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}
