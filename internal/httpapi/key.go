package httpapi

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// keyHeader names the idempotency key of a request.
const keyHeader = "Idempotency-Key"

// maxKeyBytes bounds an idempotency key.
const maxKeyBytes = 512

// idempotencyKey returns the request's key, or "" where it has none. The same key may come bare or in double quotes, as
// the header's draft standard has it.
func idempotencyKey(header http.Header) (string, *problem.Problem) {
	return onlyKey(header, parseKey)
}

// onlyKey reads the one key of a request.
func onlyKey(header http.Header, parse func(value string) (string, *problem.Problem)) (string, *problem.Problem) {
	values := header.Values(keyHeader)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return parse(values[0])
	default:
		return "", invalidKey("The header must be there once.")
	}
}

func parseKey(value string) (string, *problem.Problem) {
	key := strings.Trim(value, " \t")
	if strings.HasPrefix(key, `"`) {
		unquoted, ok := unquoteKey(key)
		if !ok {
			return "", invalidKey(`A key that begins with a double quote must end with one, with \" and \\ the only escapes between.`)
		}
		key = unquoted
	}
	return validKey(key)
}

// validKey returns the key if it can be one.
func validKey(key string) (string, *problem.Problem) {
	switch {
	case key == "":
		return "", invalidKey("The key must have at least 1 byte.")
	case len(key) > maxKeyBytes:
		return "", invalidKey("The key must have at most 512 bytes.").WithLimit(maxKeyBytes)
	case !utf8.ValidString(key):
		return "", invalidKey("The key must be valid UTF-8.")
	case strings.ContainsFunc(key, unicode.IsControl):
		return "", invalidKey("The key must have no control characters.")
	default:
		return key, nil
	}
}

// unquoteKey takes a key out of its quotes.
func unquoteKey(quoted string) (key string, ok bool) {
	var text strings.Builder
	for i := 1; i < len(quoted); i++ {
		switch b := quoted[i]; b {
		case '"':
			return text.String(), i == len(quoted)-1
		case '\\':
			i++
			if i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
			text.WriteByte(quoted[i])
		default:
			text.WriteByte(b)
		}
	}
	return "", false
}

func invalidKey(rule string) *problem.Problem {
	return problem.New(contract.ProblemCodeInvalidIdempotencyKey, "%s", rule)
}
