// Package contracttest holds what a server answers against its OpenAPI document. Only tests import it.
//
// A response must have a status, headers, a media type and a body that its operation documents. Bodies are compared with
// exact numbers, since a client's JSON may hold any. A stream of server-sent events is held against its schema event by
// event. HEAD is answered as GET, without the body. Where the document has no operation, only the problem documents fit
// that say so.
package contracttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// location is what the document is called while its schemas are compiled.
const location = "contract://openapi"

// Contract is an OpenAPI 3.1 document. It is safe for concurrent use.
type Contract struct {
	document any
	routes   []route

	mu       sync.Mutex // guards the following
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

// route is one operation.
type route struct {
	method    string
	segments  []string // of the path; one in braces stands for any
	operation string
	responses place
	security  place
	tags      []string
}

// Answer is one status that an operation documents.
type Answer struct {
	Operation string
	Status    int
}

func (a Answer) String() string { return fmt.Sprintf("%s %d", a.Operation, a.Status) }

// Load reads a document in YAML. Every schema of it must compile.
func Load(text string) (*Contract, error) {
	document, err := decodeYAML(text)
	if err != nil {
		return nil, err
	}
	c := &Contract{document: document, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	c.compiler.AssertContent() // of texts that are JSON
	if err := c.compiler.AddResource(location, document); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	for path, item := range c.at("paths").members() {
		for method, operation := range item.members() {
			id, ok := operation.get("operationId").value.(string)
			if ok {
				c.routes = append(c.routes, route{strings.ToUpper(method), strings.Split(path, "/"), id, operation.get("responses"), operation.get("security"),
					texts(operation.get("tags").value)})
			}
		}
	}
	for name := range c.at("components", "schemas").members() {
		if _, err := c.schema(c.at("components", "schemas", name)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// decodeYAML gives the document the form that it has in JSON, with numbers as they are spelled.
func decodeYAML(text string) (any, error) {
	var raw any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	rendered, err := json.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(rendered))
}

// Answers lists every status that every operation documents, in order.
func (c *Contract) Answers() []Answer {
	var all []Answer
	for _, r := range c.routes {
		for code := range r.responses.members() {
			status, _ := strconv.Atoi(code)
			all = append(all, Answer{r.operation, status})
		}
	}
	slices.SortFunc(all, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status))
	})
	return all
}

// Operation is an operation with who may call it.
type Operation struct {
	ID, Method, Path string
	// Security lists, for each scheme that will do, the roles that it takes. nil: nobody has to say who they are.
	Security map[string][]string
}

// Operations lists all operations, in the order of their ids.
func (c *Contract) Operations() []Operation {
	var all []Operation
	for _, r := range c.routes {
		o := Operation{ID: r.operation, Method: r.method, Path: strings.Join(r.segments, "/")}
		alternatives, _ := r.security.value.([]any)
		for _, alternative := range alternatives {
			schemes, _ := alternative.(map[string]any)
			for name, listed := range schemes {
				if o.Security == nil {
					o.Security = map[string][]string{}
				}
				o.Security[name] = texts(listed)
			}
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Operation) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func texts(listed any) []string {
	values, _ := listed.([]any)
	all := make([]string, len(values))
	for i, value := range values {
		all[i], _ = value.(string)
	}
	return all
}

// Operation names the operation that answers a request; false: the document has none.
func (c *Contract) Operation(method, path string) (id string, ok bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range c.matching(path) {
		if r.method == method {
			return r.operation, true
		}
	}
	return "", false
}

// matching are the operations of a path, as it is written in a request; those that say most of it in so many words are first.
func (c *Contract) matching(path string) (found []route) {
	segments := strings.Split(path, "/")
	for _, r := range c.routes {
		fits := slices.EqualFunc(r.segments, segments, func(pattern, segment string) bool {
			return pattern == segment || strings.HasPrefix(pattern, "{") && segment != ""
		})
		if fits {
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b route) int { return cmp.Compare(a.templates(), b.templates()) })
	return found
}

// templates is how many segments stand for any.
func (r route) templates() (n int) {
	for _, segment := range r.segments {
		if strings.HasPrefix(segment, "{") {
			n++
		}
	}
	return n
}

// schema compiles the schema that stands at a place, once.
func (c *Contract) schema(at place) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[at.pointer]; ok {
		return s, nil
	}
	s, err := c.compiler.Compile(location + "#" + at.pointer)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	c.schemas[at.pointer] = s
	return s, nil
}

// fits holds a value against the schema at a place.
func (c *Contract) fits(at place, value any) error {
	s, err := c.schema(at)
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// fitsJSON holds a JSON document against the schema at a place.
func (c *Contract) fitsJSON(at place, raw []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return c.fits(at, value)
}

// place is a value within the document, with the JSON Pointer that leads there, as a fragment.
type place struct {
	contract *Contract
	pointer  string
	value    any
}

func (c *Contract) at(names ...string) place {
	at := place{c, "", c.document}
	for _, name := range names {
		at = at.get(name)
	}
	return at
}

// get is the member of that name, or what it refers to; without a value where there is none.
func (p place) get(name string) place {
	object, _ := p.value.(map[string]any)
	token := url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	return place{p.contract, p.pointer + "/" + token, object[name]}.resolved()
}

// resolved follows a reference that stands alone, as those to responses, headers and parameters do.
func (p place) resolved() place {
	object, _ := p.value.(map[string]any)
	reference, ok := object["$ref"].(string)
	if !ok || len(object) > 1 {
		return p
	}
	return p.contract.at(strings.Split(strings.TrimPrefix(reference, "#/"), "/")...)
}

// exists reports whether there is a value.
func (p place) exists() bool { return p.value != nil }

// members goes through an object's members.
func (p place) members() func(yield func(string, place) bool) {
	return func(yield func(string, place) bool) {
		object, _ := p.value.(map[string]any)
		for name := range object {
			if !yield(name, p.get(name)) {
				return
			}
		}
	}
}

// Paths lists the paths of all operations, as the document has them.
func (c *Contract) Paths() []string {
	var all []string
	for path := range c.at("paths").members() {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// Enum lists the values that a named schema admits.
func (c *Contract) Enum(schema string) []string {
	return texts(c.at("components", "schemas", schema, "enum").value)
}
