package schema

import (
	"maps"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// evaluated is which members and items of one value were held against a schema, for unevaluatedProperties and
// unevaluatedItems. A nil one takes nothing in.
type evaluated struct {
	names map[string]bool
	items map[int]bool
}

func (e *evaluated) addName(name string) {
	if e == nil {
		return
	}
	if e.names == nil {
		e.names = map[string]bool{}
	}
	e.names[name] = true
}

func (e *evaluated) addItem(index int) {
	if e == nil {
		return
	}
	if e.items == nil {
		e.items = map[int]bool{}
	}
	e.items[index] = true
}

func (e *evaluated) merge(other *evaluated) {
	if e.names == nil {
		e.names = other.names
	} else {
		maps.Copy(e.names, other.names)
	}
	if e.items == nil {
		e.items = other.items
	} else {
		maps.Copy(e.items, other.items)
	}
}

// unevaluated checks the members and items that nothing else in the schema has looked at. It comes last.
func (c *check) unevaluated(s *jsonschema.Schema, t target, seen *evaluated) bool {
	fits := true
	if object, ok := t.value.(map[string]any); ok && s.UnevaluatedProperties != nil {
		for _, name := range sortedKeys(object) {
			if !seen.names[name] {
				seen.addName(name)
				fits = c.apply(s.UnevaluatedProperties, t.member(name, object[name]), nil) && fits
			}
		}
	}
	if array, ok := t.value.([]any); ok && s.UnevaluatedItems != nil {
		for i, item := range array {
			if !seen.items[i] {
				seen.addItem(i)
				fits = c.apply(s.UnevaluatedItems, t.item(i, item), nil) && fits
			}
		}
	}
	return fits
}
