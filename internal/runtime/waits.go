package runtime

import (
	"crypto/sha256"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	waitsKept   = 4096
	schemasKept = 128
	// schemaKept bounds the schema of a wait that is remembered, and with it the memory of all of them.
	schemaKept = 16_000
)

// waits remembers the open waits that passed through this process, so that an answer can be checked before it is sent and
// costs one exchange. What it holds may be out of date: the store says so.
type waits struct {
	byID *lru.Cache[string, openWait]
}

type openWait struct {
	sequence int64
	wait     execution.Wait // without its default
}

func newWaits() *waits {
	cache, err := lru.New[string, openWait](waitsKept)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &waits{byID: cache}
}

// saw remembers the record's wait if it has one.
func (w *waits) saw(r store.Record) {
	if r.Control.Status != execution.Waiting || len(r.Wait) > schemaKept {
		return
	}
	if open, err := openWaitOf(r); err == nil {
		w.byID.Add(r.Control.ID, open)
	}
}

func (w *waits) get(id string) (openWait, bool) { return w.byID.Get(id) }

func openWaitOf(r store.Record) (openWait, error) {
	wait, err := execution.DecodeWait(r.Wait)
	if err != nil {
		return openWait{}, &execution.Error{Code: execution.CodeCorrupt, Message: "the stored wait can't be read", Err: err}
	}
	wait.Default = nil
	return openWait{sequence: r.Control.WaitSequence, wait: wait}, nil
}

// schemas compiles the schemas of waits, and keeps those that were used last.
type schemas struct {
	compile func([]byte) (handler.Schema, error)
	kept    *lru.Cache[[sha256.Size]byte, handler.Schema]
}

func newSchemas(compile func([]byte) (handler.Schema, error)) *schemas {
	cache, err := lru.New[[sha256.Size]byte, handler.Schema](schemasKept)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &schemas{compile: compile, kept: cache}
}

// check returns an error of CodeInvalidInput where the schema can't be compiled, or the answer, if there is one, does not fit.
func (s *schemas) check(w execution.Wait, answer []byte) error {
	if w.Schema == nil {
		return nil
	}
	schema, err := s.get(w.Schema)
	if err != nil {
		return &execution.Error{Code: execution.CodeInvalidInput, Message: "the schema of the wait can't be used", Err: err}
	}
	if answer == nil {
		return nil
	}
	return violated("the answer", schema, answer)
}

func (s *schemas) get(raw []byte) (handler.Schema, error) {
	sum := sha256.Sum256(raw)
	if schema, ok := s.kept.Get(sum); ok {
		return schema, nil
	}
	schema, err := s.compile(raw)
	if err == nil {
		s.kept.Add(sum, schema)
	}
	return schema, err
}

// violated returns an error of CodeInvalidInput with the rules that the value breaks; nil where it fits.
func violated(what string, schema handler.Schema, value []byte) error {
	if schema == nil {
		return nil
	}
	violations := schema.Validate(value)
	if len(violations) == 0 {
		return nil
	}
	e := execution.Errorf(execution.CodeInvalidInput, "%s does not fit its schema", what)
	e.Violations = violations
	return e
}
