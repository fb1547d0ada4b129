package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/sse"
)

const standardLong = `One execution as an agent makes it: 20,000 bytes of input, six turns of 250 chunks of 240 bytes over 40 s, a check for
cancellation before each turn and after each of the first five, a progress event after each of the first five, a checkpoint of
30,000 bytes after every turn, a result of 5,000 bytes, and one viewer from the start.

Counted from the submission to the viewer's end, over all processes, with polls, maintenance and heartbeats: commands and bytes
by a proxy before Redis, commands of scripts by INFO. The viewer is connected to the process that works, and then to another one,
which serves work of its own. With --compress the text is random words, since repeated letters would flatter it. It counts only if every chunk and one "completed" arrive.

--short runs one turn in place of six.`

// standardBudget is what one standard run may cost.
type standardBudget struct{ exchanges, commands, serverCommands, bytes float64 }

// budgetOf depends on where the viewer is. That of the short form is what one turn costs at present, and what a busy machine adds:
// it finds what makes the run dearer.
func budgetOf(samePlace, short, compress bool) standardBudget {
	switch {
	case short && samePlace:
		return standardBudget{85, 85, 400, 175_000}
	case short:
		return standardBudget{150, 150, 475, 260_000}
	case samePlace && compress:
		return standardBudget{440, 460, 1800, 350_000}
	case samePlace:
		return standardBudget{440, 460, 1800, 750_000}
	case compress:
		return standardBudget{815, 860, 2250, 550_000}
	}
	return standardBudget{815, 860, 2250, 1_170_000}
}

// Standard measures the standard run.
func Standard(ctx context.Context, p Params) (*Report, error) {
	p.Executions, p.Words = max(p.Executions, 1), p.Words || p.Compress
	r, err := begin(ctx, "standard", p)
	if err != nil {
		return nil, err
	}
	defer r.end()
	for _, samePlace := range []bool{false, true} {
		name := "viewer in another process"
		if samePlace {
			name = "viewer in the worker's process"
		}
		if p.Executions > 1 {
			name += fmt.Sprintf(", each of %d executions at once", p.Executions)
		}
		if err := r.repeatedly(ctx, name, func() error { return r.standard(ctx, name, samePlace) }); err != nil {
			return nil, err
		}
	}
	return r.report, nil
}

func (r *run) standard(ctx context.Context, name string, samePlace bool) error {
	proxy, url, err := r.redis.proxy(ctx)
	if err != nil {
		return err
	}
	defer proxy.Close()
	worker, err := r.serve(ctx, serveOrder{Redis: url, Prefix: r.redis.prefix, Slots: r.Executions, Compress: r.Compress})
	if err != nil {
		return err
	}
	defer worker.stop()
	front := worker
	if !samePlace {
		front, err = r.serve(ctx, serveOrder{Redis: url, Prefix: r.redis.prefix, Bystander: true, Compress: r.Compress})
		if err != nil {
			return err
		}
		defer front.stop()
	}
	turns := standardTurns
	if r.Short {
		turns = 1
	}
	play := &standardPlay{run: r, worker: worker, front: front, client: newHTTPClient(2 * r.Executions)}
	defer play.client.CloseIdleConnections()
	if err := errors.Join(r.tellScripts(ctx), play.all(ctx, 1, 1, 2)); err != nil { // scripts become warm
		return err
	}
	traffic, err := proxy.Traffic()
	if err != nil {
		return err
	}
	load, err := r.redis.load(ctx)
	if err != nil {
		return err
	}
	if err := play.all(ctx, r.Executions, turns, turnChunks); err != nil {
		r.report.invalid(name, err.Error())
	}
	after, err := proxy.Traffic()
	if err != nil {
		return err
	}
	loadAfter, err := r.redis.load(ctx)
	if err != nil {
		return err
	}
	r.report.add(name, r.standardFigures(after.since(traffic), loadAfter.commands-load.commands, samePlace)...)
	return nil
}

func (r *run) standardFigures(t Traffic, serverCommands int64, samePlace bool) []Figure {
	b, n := budgetOf(samePlace, r.Short, r.Compress), float64(r.Executions)
	out := []Figure{
		count("exchanges", "", float64(t.Exchanges)/n, b.exchanges),
		count("client commands", "", float64(t.Commands)/n, b.commands),
		count("server commands", "", float64(serverCommands)/n, b.serverCommands),
		count("bytes", "B", float64(t.Bytes)/n, b.bytes),
	}
	names := make([]string, 0, len(t.ByName))
	for name := range t.ByName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, count("commands: "+name, "", float64(t.ByName[name])/n, 0))
	}
	return out
}

// standardPlay submits standard runs and watches them.
type standardPlay struct {
	*run
	worker, front *process
	client        *http.Client
}

// all returns when every viewer has seen the end, and all of what was to be seen.
func (s *standardPlay) all(ctx context.Context, executions, turns, chunks int) error {
	input, err := json.Marshal(standardIn{Text: standardText(s.Words), Turns: turns, Chunks: chunks, Words: s.Words})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	submit := overHTTP(s.client, s.worker.url)
	errs := make([]error, executions)
	var viewers sync.WaitGroup
	for i := range executions {
		viewers.Go(func() {
			id, err := submit(ctx, workStandard, input)
			if err == nil {
				err = s.view(ctx, id, turns*chunks)
			}
			errs[i] = err
		})
	}
	viewers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func standardText(words bool) string {
	if words {
		return randomWords(standardInput)
	}
	return strings.Repeat("x", standardInput)
}

// view follows one execution from its beginning to the end of the stream.
func (s *standardPlay) view(ctx context.Context, id string, chunks int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.front.url+"/v1/executions/"+id+"/stream", nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream was answered with %d", resp.StatusCode)
	}
	seen := map[string]int{}
	for events := sse.NewReader(resp.Body, 0); ; {
		event, err := events.Next()
		if err == io.EOF { //nolint:errorlint // it is returned as it is
			break
		}
		if err != nil {
			return err
		}
		seen[event.Name]++
	}
	if seen["chunk"] != chunks || seen["completed"] != 1 || seen["gap"] != 0 {
		return fmt.Errorf("a viewer saw %d chunks, %d gaps and %d times the end, want %d, 0 and 1",
			seen["chunk"], seen["gap"], seen["completed"], chunks)
	}
	return nil
}
