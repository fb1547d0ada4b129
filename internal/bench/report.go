package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Kind says how far a figure can be relied on.
type Kind string

// The kinds of figures.
const (
	Count Kind = "count" // the same on any machine, up to how the clock falls; has a budget that fails the run
	Ratio Kind = "ratio" // of two measurements taken in turns
	Time  Kind = "time"  // of this machine at this time
)

// Figure is one thing that was measured, once a run.
type Figure struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit,omitempty"`
	Kind   Kind      `json:"kind"`
	Values []float64 `json:"values"`
	Limit  float64   `json:"limit,omitempty"` // 0: none
	Least  bool      `json:"least,omitempty"` // the limit is the least that it may be
}

// judged is what is held against the limit: of counts the worst value, of what the machine's other work moves the median.
func (f Figure) judged() float64 {
	switch {
	case f.Kind != Count:
		return f.median()
	case f.Least:
		return slices.Min(f.Values)
	}
	return slices.Max(f.Values)
}

func (f Figure) median() float64 {
	sorted := slices.Sorted(slices.Values(f.Values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Missed reports whether the figure is beyond its limit.
func (f Figure) Missed() bool {
	if f.Limit == 0 {
		return false
	}
	return f.Least && f.judged() < f.Limit || !f.Least && f.judged() > f.Limit
}

// Case is what was measured under the same conditions.
type Case struct {
	Name    string   `json:"name"`
	Figures []Figure `json:"figures"`
	Invalid string   `json:"invalid,omitempty"` // why the figures mean nothing
}

// Machine is where it was measured.
type Machine struct {
	System string  `json:"system"`
	CPUs   int     `json:"cpus"`
	Go     string  `json:"go"`
	Redis  string  `json:"redis,omitempty"`
	Load   float64 `json:"load"` // of the last minute, when it began; 0: not known
}

func thisMachine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &m.Load) // 0 where it says something else
	}
	return m
}

// Report is what a benchmark has measured.
type Report struct {
	Bench   string    `json:"bench"`
	Short   bool      `json:"short,omitempty"`
	Began   time.Time `json:"began"`
	Machine Machine   `json:"machine"`
	Cases   []Case    `json:"cases"`
}

// add adds a run's figures to a case.
func (r *Report) add(name string, figures ...Figure) {
	c := r.caseOf(name)
	for _, f := range figures {
		at := slices.IndexFunc(c.Figures, func(other Figure) bool { return other.Name == f.Name })
		if at < 0 {
			c.Figures = append(c.Figures, f)
			continue
		}
		c.Figures[at].Values = append(c.Figures[at].Values, f.Values...)
	}
}

// invalid says why the figures of a case mean nothing.
func (r *Report) invalid(name, why string) { r.caseOf(name).Invalid = why }

func (r *Report) caseOf(name string) *Case {
	at := slices.IndexFunc(r.Cases, func(c Case) bool { return c.Name == name })
	if at < 0 {
		at = len(r.Cases)
		r.Cases = append(r.Cases, Case{Name: name})
	}
	return &r.Cases[at]
}

// Over lists what fails the run: counts over their budgets, and what was measured in vain. With all, also ratios and times
// beyond their limits.
func (r *Report) Over(all bool) []string {
	var out []string
	for _, c := range r.Cases {
		if c.Invalid != "" {
			out = append(out, c.Name+": "+c.Invalid)
		}
		for _, f := range c.Figures {
			if f.Missed() && (all || f.Kind == Count) {
				out = append(out, fmt.Sprintf("%s: %s: %s, %s", c.Name, f.Name, written(f.judged(), f.Unit), f.bound()))
			}
		}
	}
	return out
}

func (f Figure) bound() string {
	switch {
	case f.Limit == 0:
		return ""
	case f.Least:
		return "at least " + written(f.Limit, f.Unit)
	}
	return "at most " + written(f.Limit, f.Unit)
}

// WriteJSON writes the report as one document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	var out strings.Builder
	m := r.Machine
	fmt.Fprintf(&out, "windrow bench %s: %s, %d CPUs, %s, Redis %s, load %.1f\n", r.Bench, m.System, m.CPUs, m.Go, m.Redis, m.Load)
	for _, c := range r.Cases {
		fmt.Fprintf(&out, "\n%s\n", c.Name)
		if c.Invalid != "" {
			fmt.Fprintf(&out, "  INVALID: %s\n", c.Invalid)
		}
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for _, f := range c.Figures {
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", f.Name, written(f.median(), f.Unit), f.spread(), f.bound(), f.verdict())
		}
		_ = table.Flush() // into memory
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (f Figure) spread() string {
	if len(f.Values) < 2 {
		return ""
	}
	return fmt.Sprintf("%s to %s", number(slices.Min(f.Values)), number(slices.Max(f.Values)))
}

func (f Figure) verdict() string {
	switch {
	case f.Missed():
		return "MISSED"
	case f.Limit != 0:
		return "ok"
	}
	return ""
}

func written(v float64, unit string) string {
	if unit == "%" {
		return number(v) + unit
	}
	return strings.TrimSuffix(number(v)+" "+unit, " ")
}

// number shows about four digits.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v), size >= 1000:
		return fmt.Sprintf("%.0f", v)
	case size >= 100:
		return fmt.Sprintf("%.1f", v)
	case size >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// count, ratio and timed make figures of one value.
func count(name, unit string, v, limit float64) Figure {
	return Figure{Name: name, Unit: unit, Kind: Count, Values: []float64{v}, Limit: limit}
}

func timed(name, unit string, v, limit float64) Figure {
	return Figure{Name: name, Unit: unit, Kind: Time, Values: []float64{v}, Limit: limit}
}

// atLeast is a ratio that must not be smaller.
func atLeast(name string, percent, limit float64) Figure {
	return Figure{Name: name, Unit: "%", Kind: Ratio, Values: []float64{percent}, Limit: limit, Least: true}
}
