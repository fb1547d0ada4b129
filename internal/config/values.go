package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// How values are written, for errors.
const (
	bytesForm    = "an amount of bytes such as 64000, 64KB or 64KiB"
	durationForm = "a duration such as 500ms, 30s, 1h or 7d"
)

// Bytes is an amount of bytes. As a flag it is a number, or one with a unit: 64KB is 64,000, 64KiB is 65,536.
type Bytes int64

type unit struct {
	name  string
	bytes int64
}

// units from the largest; a longer name stands before one that it ends with.
func units() []unit {
	return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}
}

// String is the shortest form that reads back as the same amount.
func (b *Bytes) String() string {
	for _, u := range units() {
		if *b != 0 && int64(*b)%u.bytes == 0 && u.bytes > 1 {
			return fmt.Sprintf("%d%s", int64(*b)/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Set reads an amount.
func (b *Bytes) Set(text string) error {
	number, factor := text, int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<50)/factor {
		return errors.New("want " + bytesForm)
	}
	*b = Bytes(n * factor)
	return nil
}

// Type is what help calls it.
func (b *Bytes) Type() string { return "bytes" }

// span is a time.Duration as a flag that also knows days.
type span time.Duration

const day = 24 * time.Hour

// String is the shortest form: 7d, 1h and not 1h0m0s.
func (s *span) String() string {
	d := time.Duration(*s)
	if d != 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Set reads a duration.
func (s *span) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 16)
		if err != nil {
			return errors.New("want " + durationForm)
		}
		*s = span(time.Duration(n) * day)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want " + durationForm)
	}
	*s = span(d)
	return nil
}

// Type is what help calls it.
func (s *span) Type() string { return "duration" }

// Secret is a URL that may hold a password. However it is printed, logged or encoded, the password does not show.
type Secret string

// Reveal returns the URL with its password.
func (s Secret) Reveal() string { return string(s) }

// String is the URL without user, password and options.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(string(s))
	if err != nil || u.Host == "" && u.Path == "" {
		return "(not shown)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Password is a password, or another text to be kept secret. It is never shown, however it is printed, logged or encoded.
type Password string

// Reveal returns the text.
func (p Password) Reveal() string { return string(p) }

// String says only whether there is one.
func (p Password) String() string {
	if p == "" {
		return ""
	}
	return "(not shown)"
}

// GoString is String, for %#v.
func (p Password) GoString() string { return p.String() }

// LogValue is String, for slog.
func (p Password) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalText is String, for encoders.
func (p Password) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// passwordFlag is a Password as a flag.
type passwordFlag struct{ *Password }

func (f passwordFlag) Set(text string) error {
	*f.Password = Password(text)
	return nil
}

func (f passwordFlag) String() string {
	if f.Password == nil { // as pflag makes one to learn what zero looks like
		return ""
	}
	return f.Password.String()
}

func (f passwordFlag) Type() string { return "secret" }

// secretFlag is a Secret as a flag.
type secretFlag struct{ *Secret }

func (f secretFlag) Set(text string) error {
	*f.Secret = Secret(text)
	return nil
}

func (f secretFlag) String() string {
	if f.Secret == nil { // as pflag makes one to learn what zero looks like
		return ""
	}
	return f.Secret.String()
}

func (f secretFlag) Type() string { return "url" }
