package hayhooks

import (
	"regexp"
	"slices"
	"strings"
)

// Speaks reports whether a path, as it is written in a request, is one of these routes. Those of v1 never are.
func Speaks(path string) bool {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(segments) < 2 || slices.Contains(segments, "") {
		return false
	}
	deployment, kind, rest := segments[0], segments[1], segments[2:]
	switch len(rest) {
	case 0:
		return kind == "run-durable"
	case 1:
		return kind == "executions" && deployment != "v1"
	case 2:
		return kind == "executions" && deployment != "v1" && slices.Contains([]string{"cancel", "resume", "stream"}, rest[1])
	}
	return false
}

// Path is where an execution is. Names and ids need no escaping.
func Path(deployment, id string) string { return "/" + deployment + "/executions/" + id }

var id = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// ValidID reports whether a text is what hayhooks takes for an id. Another one is no valid request, rather than not there.
func ValidID(text string) bool { return id.MatchString(text) }
