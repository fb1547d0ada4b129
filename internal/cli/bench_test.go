package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windrow-run/windrow/internal/bench"
)

// benched runs `windrow bench` with benchmarks that only say what they would measure.
func benched(t *testing.T, measured []bench.Figure, err error, args ...string) (code int, stdout, stderr string, got bench.Params) {
	t.Helper()
	var out, failed strings.Builder
	m := &Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &failed, LookupEnv: func(string) (string, bool) { return "", false }}
	cmd := m.oneBench(bench.Bench{Name: "memory", Short: "What it takes", Run: func(_ context.Context, p bench.Params) (*bench.Report, error) {
		got = p
		return &bench.Report{Bench: "memory", Cases: []bench.Case{{Name: "case", Figures: measured}}}, err
	}})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		code = exitError
		if coded, ok := errors.AsType[*codedError](err); ok {
			code = coded.code
		}
	}
	return code, out.String(), failed.String(), got
}

// The exit code says whether the budgets hold, and the output what was measured.
func TestBench(t *testing.T) {
	t.Parallel()
	within := bench.Figure{Name: "queued", Unit: "B", Kind: bench.Count, Values: []float64{9}, Limit: 10}
	over := bench.Figure{Name: "finished", Unit: "B", Kind: bench.Count, Values: []float64{11}, Limit: 10}
	slow := bench.Figure{Name: "p99", Unit: "ms", Kind: bench.Time, Values: []float64{11}, Limit: 10}
	for name, test := range map[string]struct {
		figures []bench.Figure
		err     error
		args    []string
		code    int
	}{
		"within":        {figures: []bench.Figure{within, slow}, code: exitOK},
		"over":          {figures: []bench.Figure{within, over}, code: exitError},
		"slow, strict":  {figures: []bench.Figure{within, slow}, args: []string{"--strict"}, code: exitError},
		"failed":        {err: errors.New("no server"), code: exitError},
		"no runs":       {args: []string{"--runs", "0"}, code: exitUsage},
		"below nothing": {args: []string{"--stored", "-1"}, code: exitUsage},
	} {
		code, out, _, _ := benched(t, test.figures, test.err, test.args...)
		if code != test.code {
			t.Errorf("%s: exit %d, want %d", name, code, test.code)
		}
		if want := test.code != exitUsage && test.err == nil; strings.Contains(out, "queued") != want {
			t.Errorf("%s: output %q", name, out)
		}
	}
	code, out, _, got := benched(t, []bench.Figure{over}, nil, "--json", "--short", "--stored", "7", "--redis", "redis://here")
	var report bench.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitError || report.Cases[0].Figures[0].Values[0] != 11 {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
	if !got.Short || got.Stored != 7 || got.Runs != 1 || got.Redis != "redis://here" {
		t.Errorf("params %+v", got)
	}
}
