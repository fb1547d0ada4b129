package windrow_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/windrow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deployments are "echo", "ask", which waits for a number, and "hold", which runs until it is told to stop.
func deployments() []durable.Deployment {
	echo := func(_ durable.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil }
	ask := func(c durable.Context, _ struct{}) (int, error) {
		if answer, ok, err := durable.Answer[int](c); ok || err != nil {
			return answer, err
		}
		return 0, durable.Suspend[int](c, nil, durable.Wait{Message: "How many?"})
	}
	hold := func(c durable.Context, _ struct{}) (int, error) {
		<-c.Done()
		return 0, context.Cause(c)
	}
	return []durable.Deployment{durable.MustDefine("echo", "1", echo, nil), durable.MustDefine("ask", "1", ask, nil),
		durable.MustDefine("hold", "1", hold, nil)}
}

// run starts a server and returns it ready, with a function that ends it.
func run(t *testing.T, o windrow.Options) (s *windrow.Server, stop func()) {
	t.Helper()
	o.ShutdownGrace = windrow.None
	s, err := windrow.New(o, deployments()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = func() {
		cancel()
		if err, running := <-ended; running && err != nil {
			t.Error(err)
		}
		close(ended)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, stop
}

// refused fails the test unless err is an Error with the code.
func refused(t *testing.T, err error, code contract.ProblemCode) {
	t.Helper()
	e, ok := errors.AsType[*windrow.Error](err)
	if !ok || e.Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

// submit hands in work that is accepted.
func submit(t *testing.T, s *windrow.Server, deployment string, input any, opts *windrow.SubmitOptions) string {
	t.Helper()
	id, err := s.Submit(t.Context(), deployment, input, opts)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// What is wrong with the options is said in their words, all at once; a deployment that can't be served is named.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]windrow.Options{
		"option Lease: 1ms is not between":                                       {Lease: time.Millisecond},
		"option StreamTTL: an event log can't be kept for longer":                {StreamTTL: 800 * time.Hour},
		"lower it, or raise TerminalTTL":                                         {StreamTTL: 800 * time.Hour},
		"option RedisURL: it is not the URL of a Redis":                          {RedisURL: "http://:sesame@h"},
		"parameter is none of db":                                                {RedisURL: "redis://:sesame@h?sesame=1"},
		"option Addr: \"8080\" is not host:port":                                 {Addr: "8080"},
		"option MaxUnfinished: -7 is not between":                                {MaxUnfinished: -7},
		"option Partitions: 33 is not between 1 and 32\noption Slots: -1 is not": {Partitions: 33, Slots: -1},
	} {
		_, err := windrow.New(o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "--") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	fn := func(durable.Context, int) (int, error) { return 0, nil }
	if _, err := windrow.New(windrow.Options{}, durable.MustDefine("status", "1", fn, nil)); err == nil || !strings.Contains(err.Error(), "status") {
		t.Errorf("%v", err)
	}
}

// An execution can be followed, answered and canceled without HTTP, and a refusal has the code that HTTP clients get.
func TestExecutions(t *testing.T) {
	t.Parallel()
	s, stop := run(t, windrow.Options{Retries: windrow.None, MaxUnfinished: windrow.None})
	defer stop()
	ctx := t.Context()

	asked := submit(t, s, "ask", struct{}{}, nil)
	for e := (contract.Execution{}); e.Waiting == nil; {
		var err error
		if e, err = s.Get(ctx, asked); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Resume(ctx, asked, "many", nil)
	refused(t, err, contract.ProblemCodeInvalidInput)
	_, err = s.Resume(ctx, asked, 7, &windrow.ResumeOptions{Sequence: 99})
	refused(t, err, contract.ProblemCodeWaitMoved)
	if _, err = s.Resume(ctx, asked, 7, &windrow.ResumeOptions{Key: "k"}); err != nil {
		t.Error(err)
	}
	if e, err := s.Wait(ctx, asked); err != nil || e.Status != contract.ExecutionStatusCompleted || string(e.Result) != "7" {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = s.Resume(ctx, asked, 7, nil)
	refused(t, err, contract.ProblemCodeNotWaiting)

	held := submit(t, s, "hold", struct{}{}, nil)
	if _, err := s.Cancel(ctx, held, "enough"); err != nil {
		t.Error(err)
	}
	if e, err := s.Wait(ctx, held); err != nil || e.Status != contract.ExecutionStatusCanceled {
		t.Errorf("%+v, %v", e, err)
	}

	_, err = s.Submit(ctx, "none", 1, nil)
	refused(t, err, contract.ProblemCodeUnknownDeployment)
	_, err = s.Submit(ctx, "echo", make(chan int), nil)
	refused(t, err, contract.ProblemCodeInvalidJSON)
	_, err = s.Submit(ctx, "echo", json.RawMessage(`{"a":1,"a":2}`), nil)
	refused(t, err, contract.ProblemCodeInvalidJSON)
	_, err = s.Submit(ctx, "echo", strings.Repeat("x", 1_000_001), nil)
	refused(t, err, contract.ProblemCodeTooLarge)
	_, err = s.Submit(ctx, "echo", 1, &windrow.SubmitOptions{Key: strings.Repeat("k", 513)})
	refused(t, err, contract.ProblemCodeInvalidIdempotencyKey)
	_, err = s.Get(ctx, "none")
	refused(t, err, contract.ProblemCodeNotFound)
	_, err = s.Wait(ctx, "none")
	refused(t, err, contract.ProblemCodeNotFound)
}

// A key means the same whether the work came from the host or over HTTP.
func TestKeyIsTheSameOverHTTP(t *testing.T) {
	t.Parallel()
	s, stop := run(t, windrow.Options{})
	defer stop()
	host := httptest.NewServer(s.Handler())
	defer host.Close()
	c, err := client.New(host.URL, &client.Options{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		t.Fatal(err)
	}
	input := json.RawMessage(` {"n": 3889108265204450030, "h": "<>&", "e": []}`)
	opts := &windrow.SubmitOptions{Key: "order-17"}
	id := submit(t, s, "echo", input, opts)
	e, err := c.Submit(t.Context(), "echo", input, &client.SubmitOptions{Key: "order-17"})
	if err != nil || e.ExecutionID != id {
		t.Errorf("%s over HTTP, %s here: %v", e.ExecutionID, id, err)
	}
	_, err = s.Submit(t.Context(), "echo", 1, opts)
	refused(t, err, contract.ProblemCodeKeyReused)
	e.Execution, err = s.Wait(t.Context(), id)
	if want := `{"n":3889108265204450030,"h":"<>&","e":[]}`; err != nil || string(e.Result) != want {
		t.Errorf("%s, %v", e.Result, err)
	}
}

// A server with an address says where it listens; one that was stopped takes no more work, and runs no second time.
func TestEnd(t *testing.T) {
	t.Parallel()
	s, stop := run(t, windrow.Options{Addr: "127.0.0.1:0"})
	c, err := client.New(s.URL(), &client.Options{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	waited := make(chan error)
	id := submit(t, s, "ask", struct{}{}, nil)
	go func() {
		_, err := s.Wait(t.Context(), id)
		waited <- err
	}()
	stop()
	refused(t, <-waited, contract.ProblemCodeDraining)
	_, err = s.Submit(t.Context(), "echo", 1, nil)
	refused(t, err, contract.ProblemCodeDraining)
	refused(t, s.WaitReady(t.Context()), contract.ProblemCodeDraining)
	if err := s.Run(t.Context()); err == nil {
		t.Error("it ran twice")
	}
}

// A server that can't listen says so in the words of the options.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := windrow.New(windrow.Options{Addr: taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "option Addr: listen tcp "+taken.Addr().String()) || strings.Contains(err.Error(), "--") {
		t.Errorf("%v", err)
	}
	if url := s.URL(); url != "" {
		t.Errorf("it listens at %s", url)
	}
}

// While Redis does not answer nothing is taken in, and it is known that nothing was.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s, err := windrow.New(windrow.Options{RedisURL: "redis://:sesame@127.0.0.1:1/0"}, deployments()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	_, err = s.Submit(ctx, "echo", 1, nil)
	refused(t, err, contract.ProblemCodeStoreUnavailable)
	_, err = s.Wait(ctx, "none")
	refused(t, err, contract.ProblemCodeNotFound)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := s.WaitReady(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A server that others can reach says who may call it, in the words of its options.
func TestAuthIsNeeded(t *testing.T) {
	t.Parallel()
	_, err := windrow.New(windrow.Options{Addr: "0.0.0.0:0"})
	if err == nil || !strings.Contains(err.Error(), "option Auth: ") || !strings.Contains(err.Error(), "APIKeysFile or JWTIssuer") {
		t.Errorf("%v", err)
	}
	for _, o := range []windrow.Options{{Addr: "0.0.0.0:0", Auth: "none"}, {Addr: "127.0.0.1:0"}, {},
		{Addr: ":0", JWTIssuer: "i", JWTAudience: "a", JWKSURL: "https://h/"}} {
		if _, err := windrow.New(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Options are those of HTTP clients: the same key with the same ones gives the same execution, whichever way it came.
func TestSubmitOptions(t *testing.T) {
	t.Parallel()
	s, stop := run(t, windrow.Options{})
	defer stop()
	opts := windrow.SubmitOptions{Key: "k", Owner: "ann", Labels: map[string]string{"team": "x"}, Priority: 7, Delay: time.Hour,
		Deadline: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC), QueueTTL: 2 * time.Hour}
	id := submit(t, s, "ask", struct{}{}, &opts)
	e, err := s.Get(t.Context(), id)
	if err != nil || e.Labels["team"] != "x" || e.Priority != 7 || !e.Deadline.Equal(opts.Deadline) || e.AvailableAt.Sub(e.CreatedAt.Time) != time.Hour {
		t.Errorf("%+v, %v", e, err)
	}
	host := httptest.NewServer(s.Handler())
	defer host.Close()
	c, err := client.New(host.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Submit(t.Context(), "ask", struct{}{}, &client.SubmitOptions{Key: "k", Owner: "ann", Labels: opts.Labels, Priority: 7,
		Delay: time.Hour, Deadline: opts.Deadline, QueueTTL: opts.QueueTTL})
	if err != nil || again.ExecutionID != id {
		t.Errorf("%s over HTTP, %s without: %v", again.ExecutionID, id, err)
	}
	for _, o := range []windrow.SubmitOptions{{Priority: 10}, {Owner: "a\x00"}, {Labels: map[string]string{"A": ""}}, {RunAt: time.Now(), Delay: 1}, {Delay: -1}} {
		if _, err := s.Submit(t.Context(), "ask", struct{}{}, &o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
