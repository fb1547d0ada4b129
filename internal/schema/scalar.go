package schema

import (
	"encoding/json"
	"math/big"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// scalar checks the keywords of strings and numbers.
func (c *check) scalar(s *jsonschema.Schema, t target, _ *evaluated) bool {
	switch value := t.value.(type) {
	case string:
		return c.text(s, value, t)
	case json.Number:
		return c.number(s, value, t)
	default:
		return true
	}
}

func (c *check) text(s *jsonschema.Schema, text string, t target) bool {
	fits := true
	if s.MinLength != nil || s.MaxLength != nil {
		fits = c.size(t, utf8.RuneCountInString(text), bounds{s.MinLength, s.MaxLength, "minLength", "maxLength", "characters"})
	}
	if s.Pattern != nil && !c.matches(s.Pattern, text) {
		fits = c.fail(t, "pattern", "must match the pattern %v", quoted{s.Pattern.String()})
	}
	return fits
}

// matches charges the run before it matches, since a match can't be stopped.
func (c *check) matches(re jsonschema.Regexp, text string) bool {
	if sized, ok := re.(pattern); ok && !c.spend(sized.cost(text)) {
		return false
	}
	return re.MatchString(text)
}

// bounds are the limits on how large a value is, and what they are called.
type bounds struct {
	least, most                     *int
	leastKeyword, mostKeyword, unit string
}

func (c *check) size(t target, size int, b bounds) bool {
	fits := true
	if b.least != nil && size < *b.least {
		fits = c.fail(t, b.leastKeyword, "must have at least %d %s, not %d", *b.least, b.unit, size)
	}
	if b.most != nil && size > *b.most {
		fits = c.fail(t, b.mostKeyword, "must have at most %d %s, not %d", *b.most, b.unit, size)
	}
	return fits
}

func (c *check) number(s *jsonschema.Schema, number json.Number, t target) bool {
	rules := [...]struct {
		bound         *big.Rat
		keyword, text string
		met           func(value, bound *big.Rat) bool
	}{
		{s.Minimum, "minimum", "at least", func(v, b *big.Rat) bool { return v.Cmp(b) >= 0 }},
		{s.Maximum, "maximum", "at most", func(v, b *big.Rat) bool { return v.Cmp(b) <= 0 }},
		{s.ExclusiveMinimum, "exclusiveMinimum", "more than", func(v, b *big.Rat) bool { return v.Cmp(b) > 0 }},
		{s.ExclusiveMaximum, "exclusiveMaximum", "less than", func(v, b *big.Rat) bool { return v.Cmp(b) < 0 }},
		{s.MultipleOf, "multipleOf", "a multiple of", func(v, b *big.Rat) bool { return new(big.Rat).Quo(v, b).IsInt() }},
	}
	var value *big.Rat
	fits := true
	for _, rule := range rules {
		if rule.bound == nil {
			continue
		}
		if value == nil {
			if value = c.exact(number, t.at); value == nil {
				return false
			}
		}
		if !rule.met(value, rule.bound) {
			fits = c.fail(t, rule.keyword, "must be %s %v", rule.text, decimal{rule.bound})
		}
	}
	return fits
}
