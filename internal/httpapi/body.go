package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/strictjson"
)

// bodyLimits bounds what is read of a request.
type bodyLimits struct {
	bytes int64 // of the body as it arrives
	depth int   // of objects and arrays in an input
	bare  bool  // the body is an input, and not an object around one
	// around is how many objects and arrays stand around the body of a request where many come as one; 0: it comes alone.
	around int
}

// readBody returns the body of a request as compact strict JSON, or nil where the request has none. It reads no more than
// the limit, whether or not the client has said how much there is.
func readBody(w http.ResponseWriter, r *http.Request, limits bodyLimits) ([]byte, *problem.Problem) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if refused := checkMediaType(r.Header); refused != nil {
		return nil, refused
	}
	if r.ContentLength > limits.bytes {
		return nil, bodyTooLarge(limits.bytes)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.bytes))
	if err != nil {
		return nil, readProblem(err, limits.bytes)
	}
	if len(raw) == 0 {
		return nil, nil // a chunked body without a chunk
	}
	depth := limits.depth + limits.around
	if !limits.bare {
		depth++ // the object around it
	}
	body, err := strictjson.Compact(raw, strictjson.Limits{Depth: depth})
	if err != nil {
		return nil, limits.jsonProblem(err)
	}
	return body, nil
}

// bodyDeadline gives a body until the timeout to arrive, also where no handler reads it: the server reads on after an early
// answer, and a client that never sends what it has announced would hold its connection for good. The server lifts the
// deadline at the end of the body, so that it does not apply to what comes after.
func bodyDeadline(timeout time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength != 0 {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // a recorder in tests has none
			}
			next.ServeHTTP(w, r)
		})
	}
}

func readProblem(err error, limit int64) *problem.Problem {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return bodyTooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(contract.ProblemCodeRequestTimeout, "")
	default:
		return problem.New(contract.ProblemCodeInvalidRequest, "The body could not be read to its end.")
	}
}

func bodyTooLarge(limit int64) *problem.Problem {
	return problem.New(contract.ProblemCodeTooLarge, "The body must have at most %d bytes.", limit).WithLimit(limit)
}

// checkMediaType refuses a body that is not plain JSON in UTF-8.
func checkMediaType(header http.Header) *problem.Problem {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problem.New(contract.ProblemCodeUnsupportedMediaType, "The body must have no content encoding.")
	}
	mediaType, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return problem.New(contract.ProblemCodeUnsupportedMediaType, "The body must be of the media type application/json.")
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return problem.New(contract.ProblemCodeUnsupportedMediaType, "The body must be in UTF-8.")
	}
	return nil
}

// jsonProblem adds the limit to the problem of a body that is nested too deeply.
func (l bodyLimits) jsonProblem(err error) *problem.Problem {
	p := jsonProblem(err)
	if strict, ok := errors.AsType[*strictjson.Error](err); ok && strict.Code == strictjson.CodeTooDeep {
		p.Detail = fmt.Sprintf("At most %d objects and arrays may be nested.", l.depth)
		return p.WithLimit(int64(l.depth))
	}
	return p
}

// jsonProblem says which rule of strict JSON a body breaks, and where.
func jsonProblem(err error) *problem.Problem {
	var strict *strictjson.Error
	if !errors.As(err, &strict) {
		return problem.New(contract.ProblemCodeInvalidJSON, "")
	}
	rule := strict.Code.Rule()
	return problem.New(contract.ProblemCodeInvalidJSON, "%s", rule).WithErrors(contract.ProblemError{
		Pointer: strict.Pointer,
		Rule:    string(strict.Code),
		Message: rule,
		Offset:  &strict.Offset,
	})
}
