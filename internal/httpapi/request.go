package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/strictjson"
)

const (
	maxSequence     = 1<<53 - 1
	maxReasonLength = 1000 // characters
	maxOwnerLength  = 255  // characters
)

// submission is the body of a submission. The bytes of input are the client's.
type submission struct {
	input  []byte
	owner  string // empty: whose the token is
	labels execution.Labels
	runtime.SubmitOptions
}

// resumption is the body of a resume.
type resumption struct {
	input    []byte
	sequence int64 // 0: whichever wait is open
}

func parseSubmission(body []byte) (submission, *problem.Problem) {
	members, refused := parseMembers(body, "input", "owner", "labels", "priority", "run_at", "delay", "queue_ttl", "deadline")
	if refused != nil {
		return submission{}, refused
	}
	input, refused := members.required("input")
	if refused != nil {
		return submission{}, refused
	}
	owner, refused := members.owner("owner")
	if refused != nil {
		return submission{}, refused
	}
	labels, refused := members.labels("labels")
	if refused != nil {
		return submission{}, refused
	}
	options, refused := members.options()
	if refused != nil {
		return submission{}, refused
	}
	return submission{input: input, owner: owner, labels: labels, SubmitOptions: options}, nil
}

// options returns how the work is to be done.
func (m members) options() (o runtime.SubmitOptions, refused *problem.Problem) {
	if o.Priority, refused = m.number("priority", 0, 0, execution.MaxPriority); refused != nil {
		return o, refused
	}
	if o.Delay, refused = m.seconds("delay", 0); refused != nil {
		return o, refused
	}
	if o.RunAt, refused = m.time("run_at"); refused != nil {
		return o, refused
	}
	if o.QueueTTL, refused = m.seconds("queue_ttl", 0.001); refused != nil {
		return o, refused
	}
	if o.Deadline, refused = m.time("deadline"); refused != nil {
		return o, refused
	}
	if m["deadline"] != nil {
		o.Deadline = max(o.Deadline, 1) // one before 1970 has passed as well
	}
	if m["run_at"] != nil && m["delay"] != nil {
		return o, translated(execution.InvalidOption("delay", "must not be given together with run_at"))
	}
	return o, nil
}

func parseResumption(body []byte) (resumption, *problem.Problem) {
	members, refused := parseMembers(body, "input", "sequence")
	if refused != nil {
		return resumption{}, refused
	}
	input, refused := members.required("input")
	if refused != nil {
		return resumption{}, refused
	}
	sequence, refused := members.number("sequence", 0, 1, maxSequence)
	return resumption{input: input, sequence: sequence}, refused
}

// parseCancellation returns the reason; no body is no reason.
func parseCancellation(body []byte) (reason string, refused *problem.Problem) {
	if body == nil {
		return "", nil
	}
	members, refused := parseMembers(body, "reason")
	if refused != nil {
		return "", refused
	}
	return members.text("reason", maxReasonLength)
}

// members are the values of an object's members, as they stand in the body.
type members map[string][]byte

// parseMembers splits a body into its members. Those that are not known are refused by name: an option that is not
// understood must not look as if it had been.
func parseMembers(body []byte, known ...string) (members, *problem.Problem) {
	if body == nil {
		return nil, jsonProblem(&strictjson.Error{Code: strictjson.CodeEmpty})
	}
	fields, err := strictjson.Fields(body)
	if err != nil {
		return nil, jsonProblem(err)
	}
	found := members{}
	var unknown []string
	for _, field := range fields {
		if slices.Contains(known, field.Name) {
			found[field.Name] = field.Value
		} else {
			unknown = append(unknown, field.Name)
		}
	}
	if len(unknown) > 0 {
		return nil, unknownMembers(unknown)
	}
	return found, nil
}

func unknownMembers(names []string) *problem.Problem {
	names = names[:min(len(names), problem.MaxErrors)]
	quoted := make([]string, len(names))
	errors := make([]contract.ProblemError, len(names))
	for i, name := range names {
		name = clip(name)
		quoted[i] = strconv.Quote(name)
		errors[i] = memberError(name, "unknown_member", "is not a known member")
	}
	detail := "The body has members that are not known: " + strings.Join(quoted, ", ") + "."
	return problem.New(contract.ProblemCodeInvalidRequest, "%s", detail).WithErrors(errors...)
}

// clip bounds what an answer repeats of a client's name for something.
func clip(name string) string {
	const most = 100
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}

func memberError(name, rule, message string) contract.ProblemError {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return contract.ProblemError{Pointer: "/" + escaped, Rule: rule, Message: message}
}

func invalidMember(name, rule, message string) *problem.Problem {
	return problem.New(contract.ProblemCodeInvalidRequest, "The member %q %s.", name, message).
		WithErrors(memberError(name, rule, message))
}

// required returns a member that may be any JSON, but must be there.
func (m members) required(name string) ([]byte, *problem.Problem) {
	value, ok := m[name]
	if !ok {
		missing := contract.ProblemError{Rule: "required", Message: fmt.Sprintf("must have the member %q", name)}
		return nil, problem.New(contract.ProblemCodeInvalidRequest, "The body must have the member %q.", name).WithErrors(missing)
	}
	return value, nil
}

// number returns a member that is a whole number from least to most, or another where it is not there. In JSON 2.0 is one too.
func (m members) number(name string, absent, least, most int64) (int64, *problem.Problem) {
	value, ok := m[name]
	if !ok {
		return absent, nil
	}
	number, err := strconv.ParseFloat(string(value), 64) // exact up to maxSequence
	if err != nil || number != math.Trunc(number) || number < float64(least) || number > float64(most) {
		return 0, invalidMember(name, "type", fmt.Sprintf("must be a whole number from %d to %d", least, most))
	}
	return int64(number), nil
}

// seconds returns a member that is a number of seconds from least to execution.MaxDelay, or 0 where it is not there. What is
// below a millisecond is rounded up, so that nothing is early.
func (m members) seconds(name string, least float64) (time.Duration, *problem.Problem) {
	value, ok := m[name]
	if !ok {
		return 0, nil
	}
	most := execution.MaxDelay.Seconds()
	number, err := strconv.ParseFloat(string(value), 64)
	if err != nil || number < least || number > most {
		return 0, invalidMember(name, "type", fmt.Sprintf("must be a number of seconds from %v to %.0f", least, most))
	}
	return time.Duration(math.Ceil(number*1000)) * time.Millisecond, nil
}

// time returns a member that is a time, in milliseconds, or 0 where it is not there or tells one before 1970. What is below a
// millisecond is rounded up, so that nothing is early.
func (m members) time(name string) (int64, *problem.Problem) {
	value, ok := m[name]
	if !ok {
		return 0, nil
	}
	var at *time.Time
	if err := json.Unmarshal(value, &at); err != nil || at == nil {
		return 0, invalidMember(name, "format", "must be a time as RFC 3339 has it, such as 2030-01-31T08:00:00Z")
	}
	return max(at.Add(time.Millisecond-1).UnixMilli(), 0), nil
}

// owner returns a member that names an owner, or "" where it is not there.
func (m members) owner(name string) (string, *problem.Problem) {
	if _, ok := m[name]; !ok {
		return "", nil
	}
	text, refused := m.text(name, maxOwnerLength)
	if refused == nil && !auth.ValidOwner(text) {
		refused = invalidMember(name, "pattern", "must have at least one character, and no control characters")
	}
	return text, refused
}

// labels returns a member that holds labels, or none where it is not there.
func (m members) labels(name string) (execution.Labels, *problem.Problem) {
	value, ok := m[name]
	if !ok {
		return "", nil
	}
	var of map[string]*string
	if err := json.Unmarshal(value, &of); err != nil || of == nil {
		return "", invalidMember(name, "type", "must be an object of strings")
	}
	texts := make(map[string]string, len(of))
	for key, text := range of {
		if text == nil {
			return "", invalidMember(name, "type", "must be an object of strings")
		}
		texts[key] = *text
	}
	labels, err := execution.NewLabels(texts)
	if broken, ok := errors.AsType[*execution.LabelError](err); ok {
		return "", invalidLabels(name, broken)
	}
	return labels, nil
}

func invalidLabels(name string, broken *execution.LabelError) *problem.Problem {
	pointer := memberError(name, broken.Rule, broken.Message)
	if broken.Rule == "maxProperties" {
		return invalidMember(name, broken.Rule, broken.Message).WithLimit(broken.Limit)
	}
	pointer.Pointer += memberError(clip(broken.Key), "", "").Pointer
	p := problem.New(contract.ProblemCodeInvalidRequest, "The label %q %s.", clip(broken.Key), broken.Message).WithErrors(pointer)
	if broken.Limit > 0 {
		p.WithLimit(broken.Limit)
	}
	return p
}

// text returns a member that is a string of at most so many characters, or "" where it is not there.
func (m members) text(name string, most int) (string, *problem.Problem) {
	value, ok := m[name]
	if !ok {
		return "", nil
	}
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		return "", invalidMember(name, "type", "must be a string")
	}
	if utf8.RuneCountInString(*text) > most {
		return "", invalidMember(name, "maxLength", fmt.Sprintf("must have at most %d characters", most)).WithLimit(int64(most))
	}
	return *text, nil
}
