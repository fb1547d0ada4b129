package reload_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/windrow-run/windrow/internal/reload"
)

// kept is a setting of two files that must not hold "bad".
type kept struct{ value string }

func (k *kept) apply(contents [][]byte) error {
	value := string(contents[0]) + string(contents[1])
	if strings.Contains(value, "bad") {
		return errors.New("it is bad")
	}
	k.value = value
	return nil
}

// What is good is taken as a whole; what is not leaves the last good one in force, and is logged once for each reason.
func TestSource(t *testing.T) {
	t.Parallel()
	var k kept
	var log strings.Builder
	one, two := file(t, "a"), file(t, "b")
	s, err := reload.Open("API keys", slog.New(slog.NewTextHandler(&log, nil)), k.apply, one, two)
	if err != nil || k.value != "ab" {
		t.Fatalf("opened with %q, %v", k.value, err)
	}
	for _, step := range []struct {
		change    func()
		value     string
		condition string
		logged    int // lines so far
	}{
		{func() {}, "ab", "", 0},
		{func() { write(t, one, "bad") }, "ab", "The API keys in force are older than their files, which can't be used: it is bad.", 1},
		{func() {}, "ab", "The API keys in force are older than their files, which can't be used: it is bad.", 1},
		{func() { write(t, one, "a") }, "ab", "", 1},
		{func() { write(t, two, "c") }, "ac", "", 2},
		{func() { write(t, one, ""); write(t, two, "ac") }, "ac", "", 3},
		{func() { write(t, one, "bad") }, "ac", "The API keys in force are older than their files, which can't be used: it is bad.", 4},
		{func() { replace(t, one, "d") }, "dac", "", 5},
	} {
		step.change()
		s.Check()
		if k.value != step.value || s.Condition() != step.condition || strings.Count(log.String(), "\n") != step.logged {
			t.Errorf("%q, %q, %s, want %+v", k.value, s.Condition(), log.String(), step)
		}
	}
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	s.Check()
	if k.value != "dac" || !strings.Contains(s.Condition(), "no such file") {
		t.Errorf("without a file: %q, %q", k.value, s.Condition())
	}
}

// A setting that can't be used at the start is refused.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	var k kept
	for name, paths := range map[string][]string{"bad": {file(t, "bad"), file(t, "")}, "absent": {filepath.Join(t.TempDir(), "x"), file(t, "")}} {
		if s, err := reload.Open("x", slog.New(slog.DiscardHandler), k.apply, paths...); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// Run finds changes by itself.
func TestRun(t *testing.T) {
	t.Parallel()
	path := file(t, "a")
	synctest.Test(t, func(t *testing.T) {
		applied := make(chan string, 2)
		s, err := reload.Open("x", slog.New(slog.DiscardHandler), func(c [][]byte) error { applied <- string(c[0]); return nil }, path)
		if err != nil {
			t.Fatal(err)
		}
		<-applied
		write(t, path, "b")
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context()) }()
		if got := <-applied; got != "b" {
			t.Errorf("applied %q", got)
		}
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, content)
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts another file in the place of one, with the same length and time, as a rename may.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
