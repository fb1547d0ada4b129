package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// The formats of a log.
const (
	FormatAuto = "auto" // text on a terminal, JSON elsewhere
	FormatText = "text" // lines for people, in color on a terminal unless NO_COLOR is set
	FormatJSON = "json" // one JSON object a line
)

// timeLayout is the time of a text line: a person at a terminal knows the day.
const timeLayout = "15:04:05.000"

// NewLogger returns a logger that writes records of at least level to w in
// one of the formats above. Any other format is an error.
func NewLogger(w io.Writer, level slog.Leveler, format string) (*slog.Logger, error) {
	terminal := IsTerminal(w)
	if format == FormatAuto {
		format = FormatJSON
		if terminal {
			format = FormatText
		}
	}
	switch format {
	case FormatText:
		noColor := !terminal || os.Getenv("NO_COLOR") != ""
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: timeLayout, NoColor: noColor})), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withUnits})), nil
	default:
		return nil, fmt.Errorf("log format %q: want %s, %s or %s", format, FormatAuto, FormatText, FormatJSON)
	}
}

// withUnits writes durations as text does, such as 1.5s: the number of nanoseconds that JSON has for them tells nobody what it is.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// IsTerminal reports whether what is written there is seen by a person at once.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
