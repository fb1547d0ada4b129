package httpapi

import (
	"net/http"
	"regexp"
	"strings"
)

// traceparent is what W3C Trace Context has in the header of that name: version, trace, parent, flags. A later version may have
// more behind a dash; the version ff is none.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

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
