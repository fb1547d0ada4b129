package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
	"github.com/windrow-run/windrow/internal/store/memory"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// watched is a store that says when it was closed, and opens as it is told.
type watched struct {
	store.Store
	open   func() error
	closed chan struct{}
}

func (w *watched) Open(context.Context) error {
	if w.open == nil {
		return nil
	}
	return w.open()
}

func (w *watched) Close() error {
	close(w.closed)
	return w.Store.Close()
}

// rig is a server on a memory store with one deployment, "hold", that runs until it is told to stop.
type rig struct {
	app   *server.App
	store *watched
	held  chan durable.Context // the running attempt
	done  chan error           // of Run
	stop  context.CancelFunc
}

func start(t *testing.T, change func(*server.Params, *watched)) *rig {
	t.Helper()
	r := &rig{held: make(chan durable.Context, 10), done: make(chan error, 1)}
	hold := func(c durable.Context, _ struct{}) (int, error) {
		r.held <- c
		<-c.Done()
		return 0, context.Cause(c)
	}
	c := config.Default()
	c.Addr, c.ShutdownGrace, c.DrainTimeout = "127.0.0.1:0", 50*time.Millisecond, time.Second
	r.store = &watched{Store: memory.New(memory.Config{}), closed: make(chan struct{})}
	p := server.Params{Config: c.Complete(), Store: r.store,
		Deployments: []durable.Deployment{durable.MustDefine("hold", "1", hold, nil)}}
	if change != nil {
		change(&p, r.store)
	}
	app, err := server.New(p)
	if err != nil {
		t.Fatal(err)
	}
	r.app = app
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	t.Cleanup(cancel)
	go func() { r.done <- app.Run(ctx) }()
	return r
}

func (r *rig) call(t *testing.T, method, path string) (int, string) {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(`{"input":{}}`)
		if strings.HasSuffix(path, "/cancel") {
			body = strings.NewReader(`{}`)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, r.app.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// ready waits until the server says that it is.
func (r *rig) ready(t *testing.T) {
	t.Helper()
	r.until(t, "/readyz", `"status":"ok"`)
}

// until asks a path again and again until the answer matches.
func (r *rig) until(t *testing.T, path, pattern string) {
	t.Helper()
	<-r.app.Listening()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, body := r.call(t, "GET", path); regexp.MustCompile(pattern).MatchString(body) {
			return
		}
	}
}

// At a shutdown running work is handed over, a viewer is told to reconnect, and the store is closed last.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.ready(t)
	id := r.submit(t, "hold", `{}`)
	attempt := <-r.held
	viewer := make(chan string, 1)
	go func() {
		_, body := r.call(t, "GET", "/v1/executions/"+id+"/stream")
		viewer <- body
	}()
	r.stop()
	<-attempt.Done()
	if cause := context.Cause(attempt); !errors.Is(cause, durable.ErrShutdown) {
		t.Errorf("the attempt ended for %v", cause)
	}
	if said := <-viewer; !strings.Contains(said, "event: error\n") || !strings.Contains(said, `"code":"draining"`) {
		t.Errorf("the viewer was told %q", said)
	}
	<-r.store.closed
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// The metrics show what is unfinished.
func TestBacklog(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.ready(t)
	r.submit(t, "hold", `{}`)
	<-r.held
	_, body := r.call(t, "GET", "/metrics")
	if want := `backlog_executions{deployment="hold",revision="1",state="started"} 1`; !strings.Contains(body, want) {
		t.Errorf("metrics lack %s", want)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// A store that does not answer is waited for: the server is alive and not ready, and takes nothing in, since it can't know
// whether it may write there.
func TestStoreAnswersLate(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	var faults *faultstore.Store
	asked := make(chan struct{}, 1)
	r := start(t, func(_ *server.Params, w *watched) {
		faults = faultstore.New(w.Store)
		w.Store = faults
		w.open = func() error {
			select {
			case asked <- struct{}{}:
			default:
			}
			if !there.Load() {
				return execution.Errorf(execution.CodeUnavailable, "not yet")
			}
			return nil
		}
	})
	<-r.app.Listening()
	<-asked
	id := r.store.NewID(store.Key{})
	if status, _ := r.call(t, "GET", "/livez"); status != http.StatusOK {
		t.Errorf("liveness %d before the store answers", status)
	}
	for _, request := range []string{"GET /readyz", "POST /v1/deployments/hold/executions", "GET /v1/executions/" + id,
		"GET /v1/executions/" + id + "/stream", "POST /v1/executions/" + id + "/cancel", "POST /v1/executions/" + id + "/resume"} {
		method, path, _ := strings.Cut(request, " ")
		if status, body := r.call(t, method, path); status != http.StatusServiceUnavailable || !strings.Contains(body, "store_unavailable") {
			t.Errorf("%s before the store answers: %d %s", request, status, body)
		}
	}
	for _, method := range []faultstore.Method{faultstore.Submit, faultstore.FindKey, faultstore.Read, faultstore.Cancel, faultstore.Resume,
		faultstore.Check, faultstore.Counts, faultstore.Poll} {
		if n := faults.Calls(method); n > 0 {
			t.Errorf("%s was called %d times before the store was checked", method, n)
		}
	}
	r.until(t, "/metrics", `(?m)^windrow_store_error_streak [1-9]`)
	there.Store(true)
	r.ready(t)
	r.until(t, "/metrics", `(?m)^windrow_store_error_streak 0$`)
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// A store that can't be used ends the server with the reason, and no other words.
func TestStoreRefused(t *testing.T) {
	t.Parallel()
	reason := errors.New("maxmemory-policy is allkeys-lru")
	r := start(t, func(_ *server.Params, w *watched) { w.open = func() error { return reason } })
	if err := <-r.done; !errors.Is(err, reason) || err.Error() != reason.Error() {
		t.Errorf("%v", err)
	}
}

// A server that is stopped while its store does not answer stops.
func TestStopsBeforeTheStoreAnswers(t *testing.T) {
	t.Parallel()
	r := start(t, func(_ *server.Params, w *watched) {
		w.open = func() error { return execution.Errorf(execution.CodeUnavailable, "never") }
	})
	<-r.app.Listening()
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// An address that can't be listened on is an error that names the setting, and the store is closed all the same.
func TestListenFails(t *testing.T) {
	t.Parallel()
	r := start(t, func(p *server.Params, _ *watched) { p.Config.Addr = "256.0.0.1:0" })
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "--addr") {
		t.Errorf("%v", err)
	}
	<-r.store.closed
}

// Deployments that can't be served are refused before anything starts.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	fn := func(durable.Context, int) (int, error) { return 0, nil }
	p := server.Params{Config: config.Default().Complete(), Store: memory.New(memory.Config{})}
	for _, name := range []string{"status", "v1"} {
		p.Deployments = []durable.Deployment{durable.MustDefine(name, "1", fn, nil)}
		if _, err := server.New(p); err == nil {
			t.Errorf("a deployment named %s is served", name)
		}
	}
	d := durable.MustDefine("twice", "1", fn, nil)
	p.Deployments = []durable.Deployment{d, d}
	if _, err := server.New(p); err == nil {
		t.Error("a deployment is served twice")
	}
}
