package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// childArg tells this test's program to be a [Child].
const childArg = "windrow-bench-child"

func TestMain(m *testing.M) {
	if slices.Contains(os.Args[1:], childArg) {
		if err := Child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// self makes this test's program the one that benchmarks start.
func self(p Params) Params {
	p.Program = []string{os.Args[0], childArg}
	return p
}

func ownRedis(t *testing.T) *redisServer {
	t.Helper()
	s, err := openRedis(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// The proxy counts what a client sends: commands one by one, and those that are sent together as one exchange.
func TestTrafficIsCounted(t *testing.T) {
	t.Parallel()
	s := ownRedis(t)
	proxy, _, err := s.proxy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	client, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	large := command("set", "a", strings.Repeat("x", 300_000))
	three := slices.Concat(command("GET", "b"), command("get", "b"), command("EVAL", "return 1", "0"))
	replies := bufio.NewReader(client)
	for _, sent := range []struct {
		bytes []byte
		reply string
	}{{large, "+OK\r\n"}, {three, "$-1\r\n$-1\r\n:1\r\n"}} {
		if _, err := client.Write(sent.bytes); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(sent.reply))
		if _, err := io.ReadFull(replies, got); err != nil || string(got) != sent.reply {
			t.Fatalf("%q, %v", got, err)
		}
	}
	got, err := proxy.Traffic()
	if err != nil {
		t.Fatal(err)
	}
	want := Traffic{Commands: 4, Exchanges: 2, Bytes: int64(len(large) + len(three) + len("+OK\r\n$-1\r\n$-1\r\n:1\r\n")),
		ByName: map[string]int64{"set": 1, "get": 2, "eval": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A server that somebody else uses keeps all that was not the benchmark's.
func TestOthersKeysStay(t *testing.T) {
	t.Parallel()
	owner := ownRedis(t)
	owner.client.Set(t.Context(), "bench-theirs", "1", 0)
	guest, err := openRedis(t.Context(), owner.url)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2500 {
		guest.client.Set(t.Context(), fmt.Sprint(guest.prefix, ":", i), "1", 0)
	}
	guest.Close()
	keys, err := owner.client.Keys(t.Context(), "*").Result()
	if diff := cmp.Diff([]string{"bench-theirs"}, keys); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// An execution that does nothing is three exchanges: submitted, claimed, completed.
func TestBudgetThroughput(t *testing.T) {
	t.Parallel()
	report, err := Throughput(t.Context(), self(Params{Short: true, Count: 800, Runs: 2, Only: "embedded"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Cases) != 1 || len(report.Over(false)) != 0 {
		t.Fatalf("%+v", report)
	}
	for _, f := range report.Cases[0].Figures {
		if len(f.Values) != 2 {
			t.Errorf("%s has %v", f.Name, f.Values)
		}
		if f.Name == "exchanges" && (f.judged() > 3.2 || f.median() < 2) {
			t.Errorf("%v exchanges an execution", f.Values)
		}
	}
}

// A benchmark that is given up leaves no process behind, and says why.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := self(Params{})
	p.Progress = func(string, ...any) { cancel() }
	if _, err := Idle(ctx, p); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v", err)
	}
}

// What the standard run says has the sizes that its budgets were made for.
func TestStandardSizes(t *testing.T) {
	t.Parallel()
	for _, words := range []bool{false, true} {
		for _, i := range []int{0, 9, 10, 999, 1499} {
			if c := standardChunk(i, words); len(c) != standardChunkSize || !json.Valid(c) {
				t.Errorf("chunk %d has %d bytes: %s", i, len(c), c)
			}
		}
		if text := jsonText(standardCheckpoint, words); len(text) != standardCheckpoint || !json.Valid(text) {
			t.Errorf("a checkpoint has %d bytes", len(text))
		}
		if text := standardText(words); len(text) != standardInput {
			t.Errorf("the input has %d bytes", len(text))
		}
	}
}

// Only counts, and what was measured in vain, fail a run that is not strict.
func TestOver(t *testing.T) {
	t.Parallel()
	r := &Report{Bench: "b"}
	r.add("one", count("low", "", 9, 10), count("high", "B", 9, 10), count("free", "", 9, 0), atLeast("ratio", 70, 60), timed("time", "ms", 1, 2))
	r.add("one", count("low", "", 10, 10), count("high", "B", 10.5, 10), atLeast("ratio", 40, 60), timed("time", "ms", 4, 2))
	r.add("two", count("fine", "", 1, 1))
	r.invalid("two", "nobody came")
	want := []string{"one: high: 10.50 B, at most 10 B", "two: nobody came"}
	if diff := cmp.Diff(want, r.Over(false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = []string{"one: high: 10.50 B, at most 10 B", "one: ratio: 55%, at least 60%", "one: time: 2.50 ms, at most 2 ms", "two: nobody came"}
	if diff := cmp.Diff(want, r.Over(true)); diff != "" {
		t.Errorf("strict (-want +got):\n%s", diff)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"high 9.75 B 9 to 10.50 at most 10 B MISSED", "ratio 55% 40 to 70 at least 60% MISSED", "free 9", "low 9.50 9 to 10 at most 10 ok", "INVALID: nobody came"} {
		if text := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, table.String())
		}
	}
}

// What is stored has the size that it has in production: nothing of the benchmark's own stands beside it.
func TestFill(t *testing.T) {
	t.Parallel()
	s := ownRedis(t)
	kept, err := openStore(t.Context(), s.url, s.prefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	const n = 120
	for i, stage := range []stage{stageQueued, stageRunning, stageFinished} {
		f := filler{store: kept, deployment: fmt.Sprint("kind-", i), stage: stage, change: withLabel}
		if err := f.fill(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := kept.Counts(t.Context())
	if err != nil || counts.Leases != n {
		t.Errorf("%d run, %v", counts.Leases, err)
	}
	unfinished := map[string]int64{}
	for _, r := range counts.Revisions {
		unfinished[r.Deployment] = r.Nonterminal
	}
	if diff := cmp.Diff(map[string]int64{"kind-0": n, "kind-1": n, "kind-2": 0}, unfinished); diff != "" {
		t.Errorf("unfinished (-want +got):\n%s", diff)
	}
}

// A viewer that sees too little makes the run worth nothing.
func TestViewed(t *testing.T) {
	t.Parallel()
	for _, seen := range []audited{{Viewers: 9, Chunks: 1}, {Viewers: 10}, {Viewers: 10, Chunks: 1, Gaps: 1}, {Viewers: 10, Chunks: 1, Breaks: 1}, {Viewers: 10, Chunks: 1, Lost: 1}} {
		r := &run{Params: Params{Viewers: 10, Watch: 1}, report: &Report{}}
		r.viewed("case", seen, 1, 1)
		if len(r.report.Over(false)) != 1 {
			t.Errorf("%+v is taken for a whole picture", seen)
		}
	}
	r := &run{Params: Params{Viewers: 10, Watch: 1}, report: &Report{}}
	r.viewed("case", audited{Viewers: 10, Chunks: 1}, 1, 1)
	if over := r.report.Over(true); len(over) != 0 {
		t.Errorf("over: %q", over)
	}
}

// The scripts that are sent in pipelines do what they do elsewhere: everything is claimed and completed.
func TestPipelined(t *testing.T) {
	t.Parallel()
	r := &run{Params: Params{Count: 1000}, redis: ownRedis(t)}
	rates, err := r.pipelined(t.Context(), 7)
	if err != nil || min(rates.submit, rates.poll, rates.apply) <= 0 {
		t.Errorf("%+v, %v", rates, err)
	}
}
