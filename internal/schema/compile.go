package schema

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location is the name that a schema has while it is compiled. Whatever resolves to another one is remote.
const location = "windrow://schema/"

var errNotLoaded = errors.New("schemas are not loaded from elsewhere")

// refuseLoader loads nothing, neither from files nor from the network.
type refuseLoader struct{}

func (refuseLoader) Load(string) (any, error) { return nil, errNotLoaded }

// facts is what a check asks of a subschema again and again, in the form in which it asks.
type facts struct {
	types    []string            // the types that are allowed; empty is all
	patterns []jsonschema.Regexp // the keys of patternProperties, in a fixed order
}

// compile turns a decoded schema into the library's form, and refuses what the library takes but a check does not.
func compile(document any) (*jsonschema.Schema, map[*jsonschema.Schema]facts, error) {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refuseLoader{})
	compiler.UseRegexpEngine(compilePattern)
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(location, document); err != nil {
		return nil, nil, compileError(err)
	}
	root, err := compiler.Compile(location)
	if err != nil {
		return nil, nil, compileError(err)
	}
	known := map[*jsonschema.Schema]facts{}
	if err := survey(root, known); err != nil {
		return nil, nil, err
	}
	return root, known, endless(known)
}

// survey visits every subschema that a check may come to from s.
func survey(s *jsonschema.Schema, known map[*jsonschema.Schema]facts) error {
	for pending := []*jsonschema.Schema{s}; len(pending) > 0; {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, done := known[s]; done || s == nil {
			continue
		}
		if err := supported(s); err != nil {
			return err
		}
		known[s] = factsOf(s)
		pending = append(append(pending, inPlace(s)...), below(s)...)
	}
	return nil
}

// supported refuses the schemas of schemas, which the library brings along, and references that are resolved while a
// check runs.
func supported(s *jsonschema.Schema) error {
	base, pointer, _ := strings.Cut(s.Location, "#")
	switch {
	case base != location:
		return remoteRef(errNotLoaded)
	case s.DynamicRef != nil || s.RecursiveRef != nil:
		return &Error{Code: CodeUnsupported, Pointer: pointer, Message: "$dynamicRef and $recursiveRef are not supported"}
	default:
		return nil
	}
}

func factsOf(s *jsonschema.Schema) facts {
	var f facts
	if s.Types != nil {
		f.types = s.Types.ToStrings()
	}
	f.patterns = slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int {
		return strings.Compare(a.String(), b.String())
	})
	return f
}

// endless refuses a schema that applies itself to the very value that it is applied to.
func endless(known map[*jsonschema.Schema]facts) error {
	const visiting, done = 1, 2
	state := map[*jsonschema.Schema]int{nil: done}
	var visit func(s *jsonschema.Schema) error
	visit = func(s *jsonschema.Schema) error {
		switch state[s] {
		case done:
			return nil
		case visiting:
			return &Error{Code: CodeInvalid, Pointer: fragment(s.Location), Message: "the schema applies itself without end"}
		}
		state[s] = visiting
		for _, next := range inPlace(s) {
			if err := visit(next); err != nil {
				return err
			}
		}
		state[s] = done
		return nil
	}
	for _, s := range byLocation(known) {
		if err := visit(s); err != nil {
			return err
		}
	}
	return nil
}

func byLocation(known map[*jsonschema.Schema]facts) []*jsonschema.Schema {
	return slices.SortedFunc(maps.Keys(known), func(a, b *jsonschema.Schema) int {
		return strings.Compare(a.Location, b.Location)
	})
}

// inPlace returns the schemas that s applies, perhaps, to the value that s is applied to. Some may be nil.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	next := slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	for _, dependent := range s.DependentSchemas {
		next = append(next, dependent)
	}
	for _, dependent := range s.Dependencies {
		next = append(next, asSchema(dependent))
	}
	return next
}

// below returns the schemas that s applies to members, items and member names. Some may be nil.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	next := []*jsonschema.Schema{
		s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems,
		asSchema(s.AdditionalProperties), asSchema(s.Items), asSchema(s.AdditionalItems),
	}
	next = slices.Concat(next, s.PrefixItems, tuple(s))
	next = slices.AppendSeq(next, maps.Values(s.Properties))
	return slices.AppendSeq(next, maps.Values(s.PatternProperties))
}

// asSchema returns a schema that stands where the library also has other types, or nil.
func asSchema(value any) *jsonschema.Schema {
	s, _ := value.(*jsonschema.Schema)
	return s
}

// tuple returns the schemas of an items array, as drafts before 2020-12 have it.
func tuple(s *jsonschema.Schema) []*jsonschema.Schema {
	items, _ := s.Items.([]*jsonschema.Schema)
	return items
}
