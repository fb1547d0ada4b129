package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// What messages repeat of a schema is formatted only when a message is written, and bounded.
const maxQuoted = 200

// articled is a list of types.
type articled []string

func (a articled) String() string {
	with := make([]string, len(a))
	for i, name := range a {
		switch name {
		case "null":
			with[i] = name
		case "integer", "object", "array":
			with[i] = "an " + name
		default:
			with[i] = "a " + name
		}
	}
	return strings.Join(with, " or ")
}

// constants is a list of values that a schema allows.
type constants []any

func (c constants) String() string {
	texts := make([]string, len(c))
	for i, value := range c {
		text, err := json.Marshal(value)
		if err != nil {
			return "the values that the schema lists"
		}
		texts[i] = string(text)
	}
	if list := strings.Join(texts, ", "); len(list) <= maxQuoted {
		return list
	}
	return "the values that the schema lists"
}

// decimal is a bound, written exactly if that is short.
type decimal struct{ *big.Rat }

func (d decimal) String() string {
	const short = 40
	if digits, exact := d.FloatPrec(); exact && digits <= short {
		if text := d.FloatString(digits); len(text) <= short {
			return text
		}
	}
	return "the bound that the schema sets"
}

// quoted is a name or pattern of a schema.
type quoted struct{ text string }

func (q quoted) String() string {
	text := q.text
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "..."
	}
	return strconv.Quote(text)
}
