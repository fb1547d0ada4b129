package schema

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// equal reports whether a value of the document equals a constant of the schema. Numbers are equal by value.
func (c *check) equal(value, constant any, at *place) bool {
	switch value := value.(type) {
	case map[string]any:
		other, ok := constant.(map[string]any)
		return ok && c.equalObjects(value, other, at)
	case []any:
		other, ok := constant.([]any)
		if !ok || len(value) != len(other) {
			return false
		}
		for i := range value {
			if !c.equal(value[i], other[i], at.item(i)) {
				return false
			}
		}
		return true
	case json.Number:
		other, ok := constant.(json.Number)
		return ok && c.equalNumbers(value, other, at)
	default:
		return value == constant
	}
}

func (c *check) equalObjects(object, constant map[string]any, at *place) bool {
	if len(object) != len(constant) {
		return false
	}
	for _, name := range sortedKeys(object) {
		other, ok := constant[name]
		if !ok || !c.equal(object[name], other, at.member(name)) {
			return false
		}
	}
	return true
}

func (c *check) equalNumbers(number, constant json.Number, at *place) bool {
	if number == constant {
		return true
	}
	value, other := c.exact(number, at), c.exact(constant, at)
	return value != nil && other != nil && value.Cmp(other) == 0
}

// digest returns the same sum for equal values, and for no others.
func (c *check) digest(value any, at *place) [sha256.Size]byte {
	sum := sha256.New()
	c.write(sum, value, at)
	return [sha256.Size]byte(sum.Sum(nil))
}

// write writes a value in a form in which equal values are the same bytes, and each part says how long it is.
func (c *check) write(to hash.Hash, value any, at *place) {
	if !c.spend(1) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		_, _ = fmt.Fprintf(to, "{%d", len(value))
		for _, name := range sortedKeys(value) {
			_, _ = fmt.Fprintf(to, "%q", name)
			c.write(to, value[name], at.member(name))
		}
	case []any:
		_, _ = fmt.Fprintf(to, "[%d", len(value))
		for i, item := range value {
			c.write(to, item, at.item(i))
		}
	case json.Number:
		if exact := c.exact(value, at); exact != nil {
			_, _ = fmt.Fprintf(to, "n%s;", exact.RatString())
		}
	case string:
		_, _ = fmt.Fprintf(to, "%q", value)
	default:
		_, _ = fmt.Fprintf(to, "%v;", value)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
