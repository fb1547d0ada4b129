package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	windrow "github.com/windrow-run/windrow"
	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/contracttest"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/schema"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/stream"
	"github.com/windrow-run/windrow/internal/strictjson"
)

// rig is the HTTP floor on all below it, over TCP. Every response that its client sees is held against the contract.
type rig struct {
	*testing.T
	store   *faultstore.Store
	runtime *runtime.Runtime
	hub     *stream.Hub
	server  *httptest.Server
	client  *http.Client
	keeper  *contracttest.Contract
	metrics *tally
	journal *journal
	held    chan durable.Context // attempts of "hold" that run
	release chan struct{}        // lets them, and those of "tell", end; holds a token for each
	token   string               // of requests that carry no other; empty: none
}

// setup is what a test may change before the rig starts.
type setup struct {
	api     Params
	hub     stream.Params
	runtime runtime.Settings
	limits  store.Limits
	wrap    func(store.Store) store.Store
	accept  func(net.Conn)                  // sees each connection; nil: nobody does
	listen  func(net.Listener) net.Listener // stands around the server's; nil: nothing does
	idle    bool                            // the runtime is made but never runs
	direct  bool                            // requests come without a network, so that time may be virtual
}

// keeper is the contract, which never changes and takes a while to read.
var keeper = sync.OnceValues(func() (*contracttest.Contract, error) { return contracttest.Load(windrow.OpenAPI()) })

const (
	testBody   = 2000
	testHeader = 4096
	testDepth  = 8
	testInput  = 1500 // of a payload

	testRetention = 7 * 24 * time.Hour // the default of the store
)

func start(t *testing.T, changes ...func(*setup)) *rig {
	t.Helper()
	keeper, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, keeper: keeper, metrics: &tally{}, journal: &journal{}, held: make(chan durable.Context, 100),
		release: make(chan struct{}, 100)}
	logger := slog.New(slog.NewJSONHandler(r.journal, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := &setup{
		api: Params{Logger: logger, Metrics: r.metrics, Scrape: http.HandlerFunc(scrape), Contract: windrow.OpenAPI(),
			Version: "1.2.3", StoreKind: "memory", BodyBytes: testBody, HeaderBytes: testHeader, JSONDepth: testDepth,
			BodyTimeout: time.Minute, SendTimeout: time.Minute, Reconnect: time.Second, Hayhooks: true, Retention: testRetention},
		runtime: runtime.Settings{MaxPayload: testInput, ChunkInterval: time.Millisecond, ShutdownGrace: time.Second,
			BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond},
	}
	for _, change := range changes {
		change(s)
	}
	r.assemble(s)
	return r
}

func (r *rig) assemble(s *setup) {
	r.Helper()
	var kept store.Store = memory.New(memory.Config{Limits: s.limits})
	if s.wrap != nil {
		kept = s.wrap(kept)
	}
	r.store = faultstore.New(kept)
	var err error
	r.runtime, err = runtime.New(runtime.Params{Store: r.store, Deployments: r.deployments(), Settings: s.runtime,
		Compact:       func(raw []byte) ([]byte, error) { return strictjson.Compact(raw, strictjson.Limits{Depth: testDepth}) },
		CompileSchema: compileSchema})
	r.must(err)
	s.hub.Store = r.store
	r.hub, err = stream.New(s.hub)
	r.must(err)
	s.api.Runtime, s.api.Hub = r.runtime, r.hub
	handler, err := New(s.api)
	r.must(err)
	if s.direct {
		r.server = &httptest.Server{URL: "http://direct"}
		r.client = &http.Client{Transport: r.keeper.Transport(direct{handler}, func(err error) { r.Error(err) })}
		r.run(s.idle)
		return
	}
	r.server = httptest.NewUnstartedServer(handler)
	r.server.Config.MaxHeaderBytes = 2 * testHeader
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if s.accept != nil {
		r.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			s.accept(c)
			return ctx
		}
	}
	if s.listen != nil {
		r.server.Listener = s.listen(r.server.Listener)
	}
	r.server.Start()
	r.client = &http.Client{Transport: r.keeper.Transport(r.server.Client().Transport, func(err error) { r.Error(err) })}
	r.run(s.idle)
}

// run starts the runtime, and ends all parts with the test, from the top down.
func (r *rig) run(idle bool) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if idle {
		done <- nil
	} else {
		go func() { done <- r.runtime.Run(ctx) }()
	}
	r.Cleanup(func() {
		r.store.Heal()
		r.hub.Close()
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
		if r.server.Config != nil {
			r.server.Close()
		}
		r.must(r.store.Close())
	})
}

// direct hands requests to a handler, in the goroutine of who makes them.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	r.RequestURI = r.URL.RequestURI()
	d.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func scrape(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = io.WriteString(w, "up 1\n")
}

// checked is a schema as the runtime takes one.
type checked struct{ *schema.Schema }

func compileSchema(raw []byte) (handler.Schema, error) {
	s, err := schema.Compile(raw, schema.Limits{})
	return checked{s}, err
}

func (c checked) Validate(value []byte) (broken []execution.Violation) {
	for _, v := range c.Schema.Validate(value) {
		broken = append(broken, execution.Violation{Pointer: v.Pointer, Rule: v.Rule, Message: v.Message})
	}
	return broken
}

// deployments are kinds of work that bring an execution wherever a test wants it.
func (r *rig) deployments() (all []handler.Deployment) {
	for _, d := range []durable.Deployment{
		durable.MustDefine("echo", "1", echo, &durable.Options{MaxUnfinished: 3}),
		durable.MustDefine("typed", "1", func(_ durable.Context, in struct {
			N int `json:"n"`
		}) (int, error) {
			return in.N, nil
		}, nil),
		durable.MustDefine("ask", "r-2.x", ask, nil),
		durable.MustDefine("again", "1", again, nil),
		durable.MustDefine("tell", "1", r.tell, nil),
		durable.MustDefine("hold", "1", r.hold, &durable.Options{Slots: 5}),
		durable.MustDefine("flood", "1", flood, nil),
		durable.MustDefine("tokens", "1", tokens, nil),
		durable.MustDefine("drip", "1", drip, nil),
		durable.MustDefine("fail", "1", func(durable.Context, json.RawMessage) (int, error) {
			return 0, durable.Error{Type: "Broken", Code: "broken", Message: "<No & no>", Retryable: true, Err: errors.New("secret")}
		}, nil),
	} {
		all = append(all, d.Definition())
	}
	return all
}

func echo(_ durable.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil }

// ask waits for an answer that fits the schema in its input, and comes to that answer.
func ask(c durable.Context, in json.RawMessage) (json.RawMessage, error) {
	answer, ok, err := durable.Answer[json.RawMessage](c)
	if err != nil || ok {
		return answer, err
	}
	return nil, durable.SuspendSchema(c, in, nil, durable.Wait{Kind: "approval", Message: `<"Ship" & go?>`})
}

// again saves its input, asks for another attempt, and comes to what it saved.
func again(c durable.Context, in json.RawMessage) (json.RawMessage, error) {
	var saved json.RawMessage
	if found, err := durable.Restore(c, &saved); err != nil || found {
		return saved, err
	}
	if err := durable.Save(c, in); err != nil {
		return nil, err
	}
	return nil, durable.Retry(c, 0, nil)
}

// tell streams and reports its input, and ends when it is let.
func (r *rig) tell(c durable.Context, in json.RawMessage) (json.RawMessage, error) {
	if err := durable.Stream(c, in); err != nil {
		return nil, err
	}
	if err := durable.Report(c, durable.Event{Kind: "told", Message: "<told>", Metadata: in, Now: true}); err != nil {
		return nil, err
	}
	return in, r.wait(c)
}

// flood streams so many chunks of ten thousand bytes.
func flood(c durable.Context, chunks int) (int, error) {
	for range chunks {
		if err := durable.Stream(c, strings.Repeat("x", 9_998)); err != nil {
			return 0, err
		}
	}
	return chunks, nil
}

// tokens streams so many chunks of 240 bytes.
func tokens(c durable.Context, chunks int) (int, error) {
	for range chunks {
		if err := durable.Stream(c, strings.Repeat("x", 238)); err != nil {
			return 0, err
		}
	}
	return chunks, nil
}

// drip streams so many chunks, one a second.
func drip(c durable.Context, chunks int) (int, error) {
	for range chunks {
		if err := durable.Stream(c, 1); err != nil {
			return 0, err
		}
		select {
		case <-time.After(time.Second):
		case <-c.Done():
			return 0, context.Cause(c)
		}
	}
	return chunks, nil
}

// hold runs until it is let go or told to stop.
func (r *rig) hold(c durable.Context, _ json.RawMessage) (int, error) {
	r.held <- c
	return 1, r.wait(c)
}

func (r *rig) wait(c durable.Context) error {
	select {
	case <-r.release:
		return nil
	case <-c.Done():
		return context.Cause(c)
	}
}

// reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// call sends a request. A body is JSON unless a header says otherwise; headers are "Name: value".
func (r *rig) call(method, path, body string, headers ...string) reply {
	r.Helper()
	return r.whole(r.open(method, path, body, headers...))
}

// whole reads an answer to its end.
func (r *rig) whole(response *http.Response) reply {
	r.Helper()
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	r.must(err)
	return reply{response.StatusCode, response.Header, string(read)}
}

// open sends a request and leaves its answer to be read.
func (r *rig) open(method, path, body string, headers ...string) *http.Response {
	r.Helper()
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(r.Context(), method, r.server.URL+path, content)
	r.must(err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Content-Type" {
			request.Header.Del(name)
		}
		request.Header[http.CanonicalHeaderKey(name)] = append(request.Header[http.CanonicalHeaderKey(name)], value)
	}
	if _, given := request.Header["Authorization"]; r.token != "" && !given {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.client.Do(request)
	r.must(err)
	return response
}

func (r *rig) projection(a reply) contract.Execution {
	r.Helper()
	var e contract.Execution
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status >= 300 {
		r.Fatalf("%d %s is no execution (%v)", a.status, a.body, err)
	}
	return e
}

func (r *rig) problem(a reply) contract.Problem {
	r.Helper()
	var p contract.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		r.Fatalf("%d %s is no problem (%v)", a.status, a.body, err)
	}
	return p
}

func submitPath(deployment string) string { return "/v1/deployments/" + deployment + "/executions" }

// submit hands work in and returns the path of the execution.
func (r *rig) submit(deployment, input string) string {
	r.Helper()
	return r.projection(r.call("POST", submitPath(deployment), `{"input":`+input+`}`)).Links.Self
}

// await returns the execution once it has that status, or one that is final.
func (r *rig) await(path string, status execution.Status) contract.Execution {
	r.Helper()
	viewer, err := r.hub.Subscribe(r.Context(), stream.Request{ID: path[len(executionsPath):], Scope: store.Scope{All: true}})
	r.must(err)
	defer viewer.Close()
	for {
		event, err := viewer.Next(r.Context())
		r.must(err)
		var is execution.Status
		switch e := event.(type) {
		case *stream.Status:
			is = e.Status
		case *stream.End:
			is = e.Record.Control.Status
		default:
			continue
		}
		if is == status || is.Terminal() {
			return r.projection(r.call("GET", path, ""))
		}
	}
}

// stored is how much unfinished work there is, and how often the store was asked to change anything.
func (r *rig) stored() (unfinished int64, changes int) {
	r.Helper()
	counts, err := r.store.Store.Counts(r.Context())
	r.must(err)
	for _, c := range counts.Revisions {
		unfinished += c.Nonterminal
	}
	for _, m := range []faultstore.Method{faultstore.Submit, faultstore.FindKey, faultstore.Resume, faultstore.Cancel} {
		changes += r.store.Calls(m)
	}
	return unfinished, changes
}

// tally is Metrics that tests read.
type tally struct {
	mu       sync.Mutex // guards the following
	answered int        // requests
	open     map[string]int
	opened   int
	cut      int
	events   map[string]int
	change   chan struct{} // closed when anything changes
}

func (m *tally) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open, m.events = map[string]int{}, map[string]int{}
	}
	change()
	if m.change != nil {
		close(m.change)
		m.change = nil
	}
}

func (m *tally) HTTPRequest(string, string, int, time.Duration) { m.update(func() { m.answered++ }) }

func (m *tally) ViewerOpened(of string)  { m.update(func() { m.open[of]++; m.opened++ }) }
func (m *tally) ViewerClosed(of string)  { m.update(func() { m.open[of]-- }) }
func (m *tally) ViewerCut()              { m.update(func() { m.cut++ }) }
func (m *tally) StreamEvent(name string) { m.update(func() { m.events[name]++ }) }

// until waits until what was counted fits.
func (m *tally) until(t *testing.T, fits func(m *tally) bool) {
	t.Helper()
	for {
		m.mu.Lock()
		done := fits(m)
		if m.change == nil {
			m.change = make(chan struct{})
		}
		change := m.change
		m.mu.Unlock()
		if done {
			return
		}
		select {
		case <-change:
		case <-time.After(30 * time.Second):
			t.Fatal("what was counted does not fit")
		}
	}
}

func (m *tally) eventsSent() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.events)
}
