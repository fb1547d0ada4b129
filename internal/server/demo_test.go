package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/demo"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// view is what a viewer saw of an execution.
type view struct {
	chunks   []int
	progress int
	end      store.Record
}

func (r *rig) submit(t *testing.T, deployment, input string) string {
	t.Helper()
	out, err := r.app.Runtime.Submit(t.Context(), runtime.SubmitRequest{Deployment: deployment,
		Body: []byte(`{"input":` + input + `}`), Input: []byte(input)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Record.Control.ID
}

// follow watches an execution to its end, and answers where it waits.
func (r *rig) follow(t *testing.T, id, answer string) view {
	t.Helper()
	viewer, err := r.app.Hub.Subscribe(t.Context(), stream.Request{ID: id, Scope: store.Scope{All: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	var seen view
	for {
		event, err := viewer.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case *stream.Chunk:
			var chunk struct{ Index int }
			if err := json.Unmarshal(e.Payload, &chunk); err != nil {
				t.Fatal(err)
			}
			seen.chunks = append(seen.chunks, chunk.Index)
		case *stream.Progress:
			seen.progress++
		case *stream.Status:
			if e.Status == execution.Waiting {
				r.answer(t, id, answer)
			}
		case *stream.End:
			seen.end = e.Record
			return seen
		case *stream.Interrupted:
			t.Fatalf("interrupted: %s", e.Reason)
		}
	}
}

func (r *rig) answer(t *testing.T, id, answer string) {
	t.Helper()
	request := runtime.ResumeRequest{ID: id, Scope: store.Scope{All: true}, Body: []byte(`{"input":7}`), Input: []byte(`7`)}
	if _, err := r.app.Runtime.Resume(t.Context(), request); !execution.Is(err, execution.CodeInvalidInput) {
		t.Errorf("a wrong answer: %v", err)
	}
	request.Body, request.Input = []byte(`{"input":`+answer+`}`), []byte(answer)
	if _, err := r.app.Runtime.Resume(t.Context(), request); err != nil {
		t.Error(err)
	}
}

// The demo deployments do on a server what they do in memory: every part of it is one that they need.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runDemo(t, start(t, func(p *server.Params, w *watched) {
				if name == "redis" {
					p.Config.Redis, p.Config.Prefix = config.Secret(redistest.URL(t)), redistest.Prefix(t)
				}
				serveDemo(t, p, w)
			}))
		})
	}
}

// serveDemo has a server with the store that its configuration names serve the demo deployments.
func serveDemo(t *testing.T, p *server.Params, w *watched) {
	t.Helper()
	metrics := telemetry.New()
	s, err := server.NewStore(p.Config, slog.New(slog.DiscardHandler), metrics)
	if err != nil {
		t.Fatal(err)
	}
	p.Metrics, w.Store = metrics, s
	if opened, ok := s.(interface{ Open(context.Context) error }); ok {
		w.open = func() error { return opened.Open(t.Context()) }
	}
	if p.Deployments, err = demo.Deployments(demo.Params{}); err != nil {
		t.Fatal(err)
	}
}

func runDemo(t *testing.T, r *rig) {
	t.Helper()
	r.ready(t)
	for _, tc := range []struct {
		deployment, input, answer, result string
		chunks, progress                  int
	}{
		{"echo", `{"n":3889108265204450030,"e":[]}`, "", `{"n":3889108265204450030,"e":[]}`, 0, 0},
		{"story", `{"chunks":40,"seconds":0.2}`, "", `{"chunks":40,"paragraphs":10}`, 40, 10},
		{"approval", `{"question":"Ship it?"}`, `{"approved":true}`, `{"question":"Ship it?","approved":true}`, 0, 0},
		{"flaky", `{"retries":0}`, "", `{"attempts":1}`, 0, 0},
	} {
		seen := r.follow(t, r.submit(t, tc.deployment, tc.input), tc.answer)
		if got := string(seen.end.Result); got != tc.result || seen.progress != tc.progress || len(seen.chunks) != tc.chunks {
			t.Errorf("%s: result %s, error %s, %d chunks, %d progress", tc.deployment, got, seen.end.Error, len(seen.chunks), seen.progress)
		}
		for i, index := range seen.chunks {
			if index != i {
				t.Fatalf("chunk %d has index %d", i, index)
			}
		}
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}
