package httpapi

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
)

// traceparent is what W3C Trace Context has in the header of that name: version, trace, parent, flags. A later version may have
// more behind a dash; the version ff is none.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// traceMember is one of the members of tracestate, a key and what its vendor says of the trace.
var traceMember = regexp.MustCompile(`^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2B\x2D-\x3C\x3E-\x7E]{0,255}[\x21-\x2B\x2D-\x3C\x3E-\x7E]$`)

// maxTraceMembers is how many of them the standard allows.
const maxTraceMembers = 32

// traceOf is where a request stands in a trace, for who works on what it submits. What follows in a later version is left out;
// a state that is not as the standard has it, or is longer than is kept, counts as none.
func traceOf(header http.Header) execution.Trace {
	if _, ok := traceID(header); !ok {
		return execution.Trace{}
	}
	parts := traceparent.FindString(strings.Trim(header.Get("Traceparent"), " \t"))
	return execution.Trace{Parent: "00" + parts[2:55], State: traceState(header.Values("Tracestate"))}
}

func traceState(values []string) string {
	var kept []string
	for member := range strings.SplitSeq(strings.Join(values, ","), ",") {
		member = strings.Trim(member, " \t")
		if member != "" && !traceMember.MatchString(member) {
			return ""
		}
		if member != "" {
			kept = append(kept, member)
		}
	}
	state := strings.Join(kept, ",")
	if len(kept) > maxTraceMembers || len(state) > execution.MaxTraceState {
		return ""
	}
	return state
}

// traceID is the trace that a request belongs to; false: it names none, or not as the standard has it, and counts as without.
func traceID(header http.Header) (id string, ok bool) {
	values := header.Values("Traceparent")
	if len(values) != 1 {
		return "", false
	}
	parts := traceparent.FindStringSubmatch(strings.Trim(values[0], " \t"))
	if parts == nil {
		return "", false
	}
	version, trace, parent, more := parts[1], parts[2], parts[3], parts[4]
	zero := strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == ""
	if zero || version == "ff" || version == "00" && more != "" {
		return "", false
	}
	return trace, true
}
