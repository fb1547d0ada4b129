package schema

import (
	"crypto/sha256"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// object checks the keywords of objects.
func (c *check) object(s *jsonschema.Schema, t target, seen *evaluated) bool {
	object, ok := t.value.(map[string]any)
	if !ok {
		return true
	}
	fits := c.size(t, len(object), bounds{s.MinProperties, s.MaxProperties, "minProperties", "maxProperties", "members"})
	fits = c.required(t, object, s.Required) && fits
	fits = c.dependencies(s, t, object, seen) && fits
	if len(s.Properties) == 0 && len(s.PatternProperties) == 0 && s.AdditionalProperties == nil && s.PropertyNames == nil {
		return fits
	}
	for _, name := range sortedKeys(object) {
		if c.over() || t.quiet && !fits {
			return false
		}
		fits = c.name(s, t, name) && fits
		fits = c.member(s, t.member(name, object[name]), seen) && fits
	}
	return fits
}

func (c *check) required(t target, object map[string]any, names []string) bool {
	fits := true
	for _, name := range names {
		if _, ok := object[name]; !ok {
			fits = c.fail(t, "required", "must have the member %v", quoted{name})
		}
	}
	return fits
}

// dependencies checks what the presence of a member asks of its object.
func (c *check) dependencies(s *jsonschema.Schema, t target, object map[string]any, seen *evaluated) bool {
	fits := true
	for _, name := range sortedKeys(s.DependentRequired) {
		fits = c.beside(t, object, "dependentRequired", name, s.DependentRequired[name]) && fits
	}
	for _, name := range sortedKeys(s.DependentSchemas) {
		if _, ok := object[name]; ok {
			fits = c.inPlace(s.DependentSchemas[name], t, seen) && fits
		}
	}
	for _, name := range sortedKeys(s.Dependencies) {
		switch dependency := s.Dependencies[name].(type) {
		case []string:
			fits = c.beside(t, object, "dependencies", name, dependency) && fits
		case *jsonschema.Schema:
			if _, ok := object[name]; ok {
				fits = c.inPlace(dependency, t, seen) && fits
			}
		}
	}
	return fits
}

// beside checks that an object which has one member has others too.
func (c *check) beside(t target, object map[string]any, keyword, name string, others []string) bool {
	if _, ok := object[name]; !ok {
		return true
	}
	fits := true
	for _, other := range others {
		if _, ok := object[other]; !ok {
			fits = c.fail(t, keyword, "must have the member %v beside %v", quoted{other}, quoted{name})
		}
	}
	return fits
}

func (c *check) name(s *jsonschema.Schema, t target, name string) bool {
	if s.PropertyNames == nil {
		return true
	}
	named := t.member(name, name)
	return c.apply(s.PropertyNames, named.quietly(), nil) || c.fail(named, "propertyNames", "has a name that is not allowed")
}

// member checks one member against each schema that is meant for its name, or else against additionalProperties.
func (c *check) member(s *jsonschema.Schema, t target, seen *evaluated) bool {
	name, known, fits := t.at.name, false, true
	if property, ok := s.Properties[name]; ok {
		known, fits = true, c.apply(property, t, nil)
	}
	for _, pattern := range c.facts[s].patterns {
		if c.matches(pattern, name) {
			known = true
			fits = c.apply(s.PatternProperties[pattern], t, nil) && fits
		}
	}
	if !known && s.AdditionalProperties != nil {
		known = true
		fits = c.additional(s.AdditionalProperties, t)
	}
	if known {
		seen.addName(name)
	}
	return fits
}

// additional checks a member that no other keyword is meant for; the rule is a schema, or whether such members may be.
func (c *check) additional(rule any, t target) bool {
	if s := asSchema(rule); s != nil {
		return c.apply(s, t, nil)
	}
	return rule == true || c.fail(t, "additionalProperties", "is not a known member")
}

// array checks the keywords of arrays.
func (c *check) array(s *jsonschema.Schema, t target, seen *evaluated) bool {
	array, ok := t.value.([]any)
	if !ok {
		return true
	}
	fits := c.size(t, len(array), bounds{s.MinItems, s.MaxItems, "minItems", "maxItems", "items"})
	if s.UniqueItems {
		fits = c.unique(t, array) && fits
	}
	if s.Contains != nil {
		fits = c.contains(s, t, array, seen) && fits
	}
	return c.items(s, t, array, seen) && fits
}

func (c *check) unique(t target, array []any) bool {
	first := make(map[[sha256.Size]byte]int, len(array))
	for i, item := range array {
		sum := c.digest(item, t.at.item(i))
		if c.over() {
			return false
		}
		if j, ok := first[sum]; ok {
			return c.fail(t, "uniqueItems", "must have no equal items, but %d and %d are", j, i)
		}
		first[sum] = i
	}
	return true
}

// contains counts the items that fit one schema; at least one must, unless minContains says otherwise.
func (c *check) contains(s *jsonschema.Schema, t target, array []any, seen *evaluated) bool {
	count := 0
	for i, item := range array {
		if c.apply(s.Contains, t.item(i, item).quietly(), nil) {
			count++
			if s.DraftVersion >= 2020 {
				seen.addItem(i)
			}
		}
	}
	least := s.MinContains
	if least == nil {
		if count == 0 {
			return c.fail(t, "contains", "must have an item that fits the schema under contains")
		}
		least = new(int)
	}
	return c.size(t, count, bounds{least, s.MaxContains, "minContains", "maxContains", "items that fit the schema under contains"})
}

// items checks each item against the schema for its position, or else against that for the rest.
func (c *check) items(s *jsonschema.Schema, t target, array []any, seen *evaluated) bool {
	positional, rest := itemSchemas(s)
	fits := true
	if s.AdditionalItems == false && len(array) > len(positional) {
		fits = c.fail(t, "additionalItems", "must have at most %d items, not %d", len(positional), len(array))
	}
	for i, item := range array {
		if c.over() || t.quiet && !fits {
			return false
		}
		schema := rest
		if i < len(positional) {
			schema = positional[i]
		}
		if schema != nil {
			fits = c.apply(schema, t.item(i, item), nil) && fits
		}
		if schema != nil || s.AdditionalItems == true {
			seen.addItem(i)
		}
	}
	return fits
}

// itemSchemas returns what the drafts spell in different ways: schemas by position, and the schema of the rest or nil.
func itemSchemas(s *jsonschema.Schema) (positional []*jsonschema.Schema, rest *jsonschema.Schema) {
	switch {
	case s.DraftVersion >= 2020:
		return s.PrefixItems, s.Items2020
	case asSchema(s.Items) != nil:
		return nil, asSchema(s.Items)
	default:
		return tuple(s), asSchema(s.AdditionalItems)
	}
}
