package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// logLine writes a record below the level and one at it, and returns what came out.
func logLine(t *testing.T, format string) string {
	t.Helper()
	var out bytes.Buffer
	logger, err := NewLogger(&out, slog.LevelInfo, format)
	if err != nil {
		t.Fatalf("new logger: %v", err)
	}
	logger.Debug("hidden")
	logger.Info("claimed", "deployment", "echo", "after", 1500*time.Microsecond)
	return out.String()
}

// What is no terminal gets JSON, so that collectors can read it.
func TestLoggerJSON(t *testing.T) {
	t.Parallel()
	for _, format := range []string{FormatAuto, FormatJSON} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var record struct{ Level, Msg, Deployment, After string }
			if err := json.Unmarshal([]byte(logLine(t, format)), &record); err != nil {
				t.Fatalf("decode: %v", err)
			}
			if record.Level != "INFO" || record.Msg != "claimed" || record.Deployment != "echo" || record.After != "1.5ms" {
				t.Errorf("record %+v", record)
			}
		})
	}
}

// Text in a file has no color codes.
func TestLoggerText(t *testing.T) {
	t.Parallel()
	got := logLine(t, FormatText)
	if !strings.HasSuffix(got, " INF claimed deployment=echo after=1.5ms\n") || strings.Contains(got, "\x1b") || strings.Contains(got, "hidden") {
		t.Errorf("line %q", got)
	}
}

func TestLoggerRefusesUnknownFormat(t *testing.T) {
	t.Parallel()
	if _, err := NewLogger(&bytes.Buffer{}, slog.LevelInfo, "xml"); err == nil || !strings.Contains(err.Error(), "xml") {
		t.Errorf("error %v, want one that names the format", err)
	}
}
