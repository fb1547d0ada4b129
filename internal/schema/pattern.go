package schema

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPatternBytes        = 1000
	maxPatternInstructions = 4000
)

var errPatternTooLarge = errors.New("the pattern is too large")

// pattern is a compiled pattern with the size of its program: matching takes time in proportion to the text times that
// size, and a repetition such as (a{30}){30} makes a large program of a short pattern.
type pattern struct {
	*regexp.Regexp
	size int
}

// matchSteps is how many instructions on a byte of text cost as much as one step of a check.
const matchSteps = 100

// cost is what matching a text costs, in steps of a check.
func (p pattern) cost(text string) int { return p.size * len(text) / matchSteps }

// compilePattern compiles a pattern of bounded size.
func compilePattern(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPatternBytes {
		return nil, errPatternTooLarge
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPatternInstructions {
		return nil, errPatternTooLarge
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return pattern{Regexp: compiled, size: len(program.Inst)}, nil
}
