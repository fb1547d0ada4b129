package contracttest

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/windrow-run/windrow/internal/sse"
)

// Response is a request with what was answered.
type Response struct {
	Method string
	Path   string // as it was written in the request, without the query
	Status int
	Header http.Header
	Body   []byte
	// Cut says that the body is not whole: the client left, or the connection broke.
	Cut bool
}

var errNoOperation = errors.New("the contract has no such operation, and the answer does not say so")

// Check returns everything in which the response breaks the contract; nil: nothing.
func (c *Contract) Check(r Response) error {
	err := c.check(r)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s, answered with %d: %w", r.Method, r.Path, r.Status, err)
}

func (c *Contract) check(r Response) error {
	routes := c.matching(r.Path)
	if _, ok := c.Operation(r.Method, r.Path); !ok {
		return c.checkNoOperation(r, routes)
	}
	for _, known := range routes {
		if known.method != r.Method && (known.method != http.MethodGet || r.Method != http.MethodHead) {
			continue
		}
		documented := known.responses.get(strconv.Itoa(r.Status))
		if !documented.exists() {
			return fmt.Errorf("%s documents no such status", known.operation)
		}
		return errors.Join(c.checkHeaders(documented.get("headers"), r.Header), c.checkBody(documented.get("content"), r))
	}
	return errNoOperation
}

// checkNoOperation holds an answer against what the document says of paths and methods that it does not have.
func (c *Contract) checkNoOperation(r Response, routes []route) error {
	pathKnown, kind, schema := len(routes) > 0, "application/problem+json", c.at("components", "schemas", "Problem")
	if pathKnown && routes[0].hayhooks() {
		kind, schema = "application/json", c.at("components", "schemas", "HayhooksError")
	}
	switch {
	case pathKnown && (r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") == ""):
		return errNoOperation
	case !pathKnown && r.Status != http.StatusNotFound:
		return errNoOperation
	case mediaType(r.Header) != kind:
		return errNoOperation
	case r.Method == http.MethodHead:
		return nil
	}
	return c.fitsJSON(schema, r.Body)
}

// hayhooks reports whether the operation is one of hayhooks', which tell errors in their own way.
func (r route) hayhooks() bool { return slices.Contains(r.tags, "hayhooks") }

// checkHeaders looks for every header that must be there, and into every one that is.
func (c *Contract) checkHeaders(documented place, header http.Header) (problems error) {
	for name, about := range documented.members() {
		values := header.Values(name)
		if required, _ := about.get("required").value.(bool); required && len(values) == 0 {
			problems = errors.Join(problems, fmt.Errorf("the header %s is missing", name))
		}
		for _, value := range values {
			if err := c.fits(about.get("schema"), headerValue(about, value)); err != nil {
				problems = errors.Join(problems, fmt.Errorf("the header %s is %q: %w", name, value, err))
			}
		}
	}
	return problems
}

// headerValue is the value as its schema takes it.
func headerValue(about place, value string) any {
	if about.get("schema").get("type").value != "integer" {
		return value
	}
	number, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return value
	}
	return number
}

func (c *Contract) checkBody(documented place, r Response) error {
	if !documented.exists() || r.Method == http.MethodHead {
		if len(r.Body) > 0 {
			return fmt.Errorf("there is a body of %d bytes", len(r.Body))
		}
		return nil
	}
	content := documented.get(mediaType(r.Header))
	if !content.exists() {
		return fmt.Errorf("the media type %q is not documented", mediaType(r.Header))
	}
	switch kind := mediaType(r.Header); {
	case kind == "text/event-stream":
		return c.checkStream(content.get("schema"), r)
	case strings.HasSuffix(kind, "json"):
		return c.fitsJSON(content.get("schema"), r.Body)
	}
	return c.fits(content.get("schema"), string(r.Body))
}

// checkStream holds each event against the schema. A stream that is whole ends with the one event that ends it.
func (c *Contract) checkStream(schema place, r Response) error {
	reader := sse.NewReader(strings.NewReader(string(r.Body)), len(r.Body)+1)
	over := false
	for {
		event, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF) && (over || r.Cut):
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the stream has no end")
		case err != nil:
			return err
		case over:
			return fmt.Errorf("the event %s comes after the last one", event.Name)
		}
		if err := c.fits(schema, map[string]any{"event": event.Name, "id": event.ID, "data": event.Data}); err != nil {
			return fmt.Errorf("the event %s: %w", event.Name, err)
		}
		switch event.Name {
		case "completed", "failed", "canceled", "error":
			over = true
		}
	}
}

func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}
