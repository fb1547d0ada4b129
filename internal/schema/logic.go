package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// inPlace applies a schema to the value that another one is applied to. What it looked at counts only if the value fits.
func (c *check) inPlace(s *jsonschema.Schema, t target, seen *evaluated) bool {
	if seen == nil {
		return c.apply(s, t, nil)
	}
	var own evaluated
	if !c.apply(s, t, &own) {
		return false
	}
	seen.merge(&own)
	return true
}

func (c *check) references(s *jsonschema.Schema, t target, seen *evaluated) bool {
	return s.Ref == nil || c.inPlace(s.Ref, t, seen)
}

// logic checks not, allOf, anyOf and oneOf.
func (c *check) logic(s *jsonschema.Schema, t target, seen *evaluated) bool {
	fits := true
	if s.Not != nil && c.apply(s.Not, t.quietly(), nil) {
		fits = c.fail(t, "not", "must not fit the schema under not")
	}
	for _, each := range s.AllOf {
		fits = c.inPlace(each, t, seen) && fits
	}
	if len(s.AnyOf) > 0 && c.fitting(s.AnyOf, t, seen, seen == nil) == 0 {
		fits = c.alternatives("anyOf", s.AnyOf, t)
	}
	if len(s.OneOf) > 0 {
		switch c.fitting(s.OneOf, t, seen, false) {
		case 1:
		case 0:
			fits = c.alternatives("oneOf", s.OneOf, t)
		default:
			fits = c.fail(t, "oneOf", "must fit only one of the alternatives")
		}
	}
	return fits
}

// fitting counts the alternatives that a value fits, up to the first if one is enough.
func (c *check) fitting(alternatives []*jsonschema.Schema, t target, seen *evaluated, one bool) int {
	count := 0
	for _, alternative := range alternatives {
		if c.inPlace(alternative, t.quietly(), seen) {
			count++
		}
		if one && count > 0 {
			break
		}
	}
	return count
}

// alternatives reports a value that fits none of several schemas. Where only one of them is for values of its type, that
// one is what was meant, and what the value does wrong by it is more use than the fact that it fits none.
func (c *check) alternatives(keyword string, alternatives []*jsonschema.Schema, t target) bool {
	if t.quiet {
		return false
	}
	var meant []*jsonschema.Schema
	for _, alternative := range alternatives {
		if c.forType(alternative, t) {
			meant = append(meant, alternative)
		}
	}
	if len(meant) == 1 {
		return c.apply(meant[0], t, nil)
	}
	return c.fail(t, keyword, "must fit one of the alternatives")
}

// forType reports whether a schema, or the one that it refers to, is for values of the target's type.
func (c *check) forType(s *jsonschema.Schema, t target) bool {
	for ; s != nil; s = s.Ref {
		if !c.hasType(s, t) {
			return false
		}
	}
	return true
}

// condition checks if, then and else.
func (c *check) condition(s *jsonschema.Schema, t target, seen *evaluated) bool {
	if s.If == nil {
		return true
	}
	branch := s.Else
	if c.inPlace(s.If, t.quietly(), seen) {
		branch = s.Then
	}
	return branch == nil || c.inPlace(branch, t, seen)
}
