package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

const (
	maxNumberBytes = 1000
	maxExponent    = 1000

	// maxCount is the largest value of a keyword that counts (minLength and the like): the largest integer that every
	// JSON library can read.
	maxCount = 1<<53 - 1
)

// computable reports whether a number is short enough to compute with: at most 1,000 characters, and an exponent between
// -1,000 and 1,000. The exact value of 1e999999999 would take hundreds of megabytes.
func computable(number json.Number) bool {
	if len(number) > maxNumberBytes {
		return false
	}
	at := strings.IndexAny(string(number), "eE")
	if at < 0 {
		return true
	}
	digits := strings.TrimLeft(string(number[at+1:]), "+-0")
	if len(digits) > len(strconv.Itoa(maxExponent)) {
		return false
	}
	exponent, err := strconv.Atoi("0" + digits)
	return err == nil && exponent <= maxExponent
}

// exact returns the value of a number, or nil if it is too long, which ends in a violation whatever the schema makes of
// the failure: a schema must not come to a verdict on a number that was not looked at.
func (c *check) exact(number json.Number, at *place) *big.Rat {
	if computable(number) {
		if value, ok := new(big.Rat).SetString(string(number)); ok {
			return value
		}
	}
	if !c.over() {
		c.tooLong = append(c.tooLong, finding{
			at:      at,
			rule:    RuleNumberTooLong,
			message: "must have at most 1,000 characters and an exponent between -1,000 and 1,000",
		})
	}
	return nil
}

func (c *check) integer(number json.Number, at *place) bool {
	if !strings.ContainsAny(string(number), ".eE") {
		return true
	}
	value := c.exact(number, at)
	return value != nil && value.IsInt()
}

// checkNumbers refuses a schema with numbers that can't be computed with, or counts that don't fit an integer: the library
// would drop the first and mangle the second without a word.
func checkNumbers(value any, at *place) error {
	switch value := value.(type) {
	case json.Number:
		return checkNumber(value, at)
	case []any:
		for i, item := range value {
			if err := checkNumbers(item, at.item(i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range sortedKeys(value) {
			if err := checkNumbers(value[name], at.member(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNumber(number json.Number, at *place) error {
	if !computable(number) {
		return &Error{Code: CodeNumberTooLong, Pointer: at.pointer(), Message: "the number is too long to compute with"}
	}
	if at == nil || !counts(at.name) {
		return nil
	}
	value, ok := new(big.Rat).SetString(string(number))
	if !ok || value.Cmp(new(big.Rat).SetInt64(maxCount)) > 0 {
		return &Error{Code: CodeInvalid, Pointer: at.pointer(), Message: "the number is larger than 2^53-1"}
	}
	return nil
}

func counts(keyword string) bool {
	switch keyword {
	case "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		return true
	default:
		return false
	}
}
