package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// A client of hayhooks, in its own language and with nothing of ours, works against two servers of one namespace as if they were
// hayhooks: it submits, polls, answers, cancels, and follows a stream over many connections without losing or repeating a chunk.
func TestHayhooksClient(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("the client is written in Python: install python3 (Debian: apt-get install python3): %v", err)
	}
	ctx := within(t, 2*time.Minute)
	prefix := redistest.Prefix(t)
	serve := func() string {
		return start(t, "dev", "--redis", redistest.URL(t), "--key-prefix", prefix, "--addr", "127.0.0.1:0", "--lease", "3s").URL
	}
	client := exec.CommandContext(ctx, python, filepath.Join("testdata", "hayhooks_client.py"), serve(), serve())
	out, err := client.CombinedOutput()
	if want := "ok: submissions\nok: answers\nok: retries\nok: cancellations\nok: streams\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, strings.TrimSpace(string(out)))
	}
}
