package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// Deployment is a named kind of work in one immutable revision, made by [Define].
type Deployment struct{ definition handler.Deployment }

// Name of the deployment.
func (d Deployment) Name() string { return d.definition.Name }

// Revision of the deployment. Executions are run by workers of the revision that they were submitted under, so what
// changes the meaning of input, checkpoints or answers needs a new one.
func (d Deployment) Revision() string { return d.definition.Revision }

// InputSchema is the JSON Schema that inputs must fit. The bytes must not be changed.
func (d Deployment) InputSchema() json.RawMessage { return d.definition.Input.JSON() }

// Definition is the deployment as the runtime sees it. It is of no use outside Windrow.
func (d Deployment) Definition() handler.Deployment { return d.definition }

// Options are the settings of a deployment. A zero field takes the default of the server that runs it.
type Options struct {
	// Slots is how many attempts one process runs at once. Default: one a CPU.
	Slots int
	// Lease is how long a worker may be silent before its work is given to another one. Default: 30 s.
	Lease time.Duration
	// Retries is how often [Retry] is granted. Default: 2. None: never.
	Retries int
	// LostLeases is the number of the lost lease, by crash or stall, that fails the execution. Default: 3. Once one more would
	// fail it, and it has lost one, it runs alone in its process, so that it never fails for what runs beside it. With 1 it
	// never runs alone.
	LostLeases int
	// Claims is how many attempts in a row may end without a new checkpoint, wait or retry. Default: 20.
	Claims int
	// RetryDelay is the first delay of [Backoff], and RetryMaxDelay its longest. Defaults: 1 s and 60 s.
	RetryDelay    time.Duration
	RetryMaxDelay time.Duration
	// MaxUnfinished is how many executions may be unfinished at once; a submission beyond is refused. Default: 1,000.
	// None: no limit.
	MaxUnfinished int
	// DropChunks keeps no streamed chunks in the store. Viewers see none; streams still end.
	DropChunks bool
	// InputSchema takes the place of the schema that is derived from the input's Go type. A value must still fit the type,
	// but members that the type does not have are ignored where the schema admits them.
	InputSchema json.RawMessage
}

// None stands in [Options] where zero would take the default.
const None = -1

// Define makes a deployment of fn. Name and revision have 1 to 64 bytes: a letter or digit, then letters, digits, '_', '.'
// or '-'. A nil opts takes every default.
//
// The schema of the input is derived from In: fields are named and left out as encoding/json does it, a field without
// omitempty or omitzero is required, members that a struct does not have are refused, and jsonschema tags can say more.
// Use [json.RawMessage] for "any JSON, byte for byte". Out is written by encoding/json, without escapes for HTML; the bytes
// of a json.RawMessage stay as they are.
//
// It returns an error where a name or an option is out of range, or where no schema can be made.
func Define[In, Out any](name, revision string, fn func(Context, In) (Out, error), opts *Options) (Deployment, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := checkNames(name, revision); err != nil {
		return Deployment{}, err
	}
	options, err := opts.resolve()
	if err != nil {
		return Deployment{}, fmt.Errorf("durable: deployment %s: %w", name, err)
	}
	input, err := shapeOf[In](opts.InputSchema)
	if err != nil {
		return Deployment{}, fmt.Errorf("durable: deployment %s: input: %w", name, err)
	}
	return Deployment{handler.Deployment{
		Name: name, Revision: revision, Input: input, Options: options,
		Handler: function[In, Out]{input: input, call: fn},
	}}, nil
}

// MustDefine is [Define] for deployments that are known to be right when the program is written. It panics on an error.
func MustDefine[In, Out any](name, revision string, fn func(Context, In) (Out, error), opts *Options) Deployment {
	d, err := Define(name, revision, fn, opts)
	if err != nil {
		panic(err)
	}
	return d
}

// function is an author's function as the runtime runs it.
type function[In, Out any] struct {
	input shape[In]
	call  func(Context, In) (Out, error)
}

// Run decodes the input, calls the function and says how the attempt ended.
func (f function[In, Out]) Run(ctx context.Context, a handler.Attempt) handler.Outcome {
	c := newContext(ctx, a)
	in, err := f.input.read(c.info.Input)
	if err != nil { // it was readable when it was admitted
		return handler.Failed{Cause: err, Error: execution.Failure{Type: "InputUnreadable",
			Code: execution.FailureStoredInvalid, Message: "The stored input can't be read by this revision."}}
	}
	out, err := f.call(c, in)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	result, err := encode(out)
	if err != nil {
		return handler.Failed{Cause: err, Error: execution.Failure{Type: "ResultUnwritable",
			Code: execution.FailureApplication, Message: "The deployment's result can't be written as JSON."}}
	}
	return handler.Completed{Result: result}
}

func checkNames(name, revision string) error {
	valid := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	for _, n := range []struct{ what, text string }{{"name", name}, {"revision", revision}} {
		if !valid.MatchString(n.text) {
			return fmt.Errorf("durable: the %s %q of a deployment must have 1 to 64 bytes: "+
				"a letter or digit, then letters, digits, '_', '.' or '-'", n.what, n.text)
		}
	}
	return nil
}

// resolve checks the options and puts them as the runtime takes them.
func (o Options) resolve() (handler.Options, error) {
	if err := o.check(); err != nil {
		return handler.Options{}, err
	}
	resolved := handler.Options{Slots: o.Slots, Lease: o.Lease, Budgets: o.budgets(),
		RetryDelay: o.RetryDelay, RetryMaxDelay: o.RetryMaxDelay, DropChunks: o.DropChunks}
	if o.MaxUnfinished != 0 {
		ceiling := int64(max(o.MaxUnfinished, 0))
		resolved.MaxNonterminal = &ceiling
	}
	return resolved, nil
}

func (o Options) check() error {
	for _, f := range []struct {
		name    string
		value   int64
		minimum int64
	}{
		{"Slots", int64(o.Slots), 0}, {"Lease", int64(o.Lease), 0}, {"Retries", int64(o.Retries), None},
		{"LostLeases", int64(o.LostLeases), 0}, {"Claims", int64(o.Claims), 0}, {"RetryDelay", int64(o.RetryDelay), 0},
		{"RetryMaxDelay", int64(o.RetryMaxDelay), 0}, {"MaxUnfinished", int64(o.MaxUnfinished), None},
	} {
		if f.value < f.minimum {
			return fmt.Errorf("option %s is %d, the least is %d", f.name, f.value, f.minimum)
		}
	}
	return nil
}

// budgets is zero, and so the server's default, where none was named.
func (o Options) budgets() execution.Budgets {
	if o.Retries == 0 && o.LostLeases == 0 && o.Claims == 0 {
		return execution.Budgets{}
	}
	b := execution.DefaultBudgets()
	if o.Retries != 0 {
		b.Retries = int64(max(o.Retries, 0))
	}
	if o.LostLeases != 0 {
		b.LostLeases = int64(o.LostLeases)
	}
	if o.Claims != 0 {
		b.Claims = int64(o.Claims)
	}
	return b
}
