package httpapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// refusal writes a problem as its code and what is wrong where.
func refusal(p *problem.Problem) string {
	if p == nil {
		return ""
	}
	text := string(p.Code)
	for _, e := range p.Errors {
		text += " " + e.Pointer + ":" + e.Rule
	}
	return text
}

func TestParseSubmission(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ body, input, refused string }{
		"any value":       {`{"input":{"b":1e400,"a":[]}}`, `{"b":1e400,"a":[]}`, ""},
		"null":            {`{"input":null}`, "null", ""},
		"escaped name":    {`{"\u0069nput":1}`, "1", ""},
		"missing":         {`{}`, "", "invalid_request :required"},
		"unknown":         {`{"input":1,"prio":2,"a/b~":3}`, "", "invalid_request /prio:unknown_member /a~1b~0:unknown_member"},
		"unknown case":    {`{"Input":1}`, "", "invalid_request /Input:unknown_member"},
		"not an object":   {`[1]`, "", "invalid_json :not_object"},
		"null body":       {`null`, "", "invalid_json :not_object"},
		"no body at all":  {"", "", "invalid_json :empty"},
		"empty name":      {`{"":1}`, "", "invalid_request /:unknown_member"},
		"priority":        {`{"input":1,"priority":9}`, "1", ""},
		"no priority":     {`{"input":1,"priority":10}`, "", "invalid_request /priority:type"},
		"delay":           {`{"input":1,"delay":0.25}`, "1", ""},
		"longest delay":   {`{"input":1,"delay":3.1536e8}`, "1", ""},
		"no delay":        {`{"input":1,"delay":315360000.1}`, "", "invalid_request /delay:type"},
		"endless delay":   {`{"input":1,"delay":1e999}`, "", "invalid_request /delay:type"},
		"duration":        {`{"input":1,"delay":"5m"}`, "", "invalid_request /delay:type"},
		"negative delay":  {`{"input":1,"delay":-1}`, "", "invalid_request /delay:type"},
		"run at":          {`{"input":1,"run_at":"2030-01-31T08:00:00.5+01:00"}`, "1", ""},
		"no time":         {`{"input":1,"run_at":"tomorrow"}`, "", "invalid_request /run_at:format"},
		"null time":       {`{"input":1,"run_at":null}`, "", "invalid_request /run_at:format"},
		"time of no zone": {`{"input":1,"run_at":"2030-01-31T08:00:00"}`, "", "invalid_request /run_at:format"},
		"both":            {`{"input":1,"run_at":"2030-01-31T08:00:00Z","delay":0}`, "", "invalid_option /delay:option"},
		"in time":         {`{"input":1,"queue_ttl":0.001,"deadline":"2030-01-31T08:00:00Z"}`, "1", ""},
		"no queue":        {`{"input":1,"queue_ttl":0}`, "", "invalid_request /queue_ttl:type"},
		"no deadline":     {`{"input":1,"deadline":1}`, "", "invalid_request /deadline:format"},
		"answer's option": {`{"input":1,"sequence":2}`, "", "invalid_request /sequence:unknown_member"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body []byte
			if test.body != "" {
				body = []byte(test.body)
			}
			got, refused := parseSubmission(body)
			if string(got.input) != test.input || refusal(refused) != test.refused {
				t.Errorf("%s, %q; want %s, %q", got.input, refusal(refused), test.input, test.refused)
			}
		})
	}
}

// Labels are kept as they are; what breaks a rule is named.
func TestParseLabels(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for labels, want := range map[string]string{
		`{}`: "", `{"b":"é=\u002f","a.b/c_d-9":""}`: "a.b/c_d-9=\nb=é=/",
		`null`: "invalid_request /labels:type", `["a"]`: "invalid_request /labels:type", `{"a":1}`: "invalid_request /labels:type",
		`{"a":null}`:           "invalid_request /labels:type",
		`{"A~":"x"}`:           "invalid_request /labels/A~0:propertyNames",
		`{"a":"` + long + `"}`: "invalid_request /labels/a:maxLength",
		`{"a":"\u0000"}`:       "invalid_request /labels/a:pattern",
		`{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}`: "invalid_request /labels:maxProperties",
	} {
		got, refused := parseSubmission([]byte(`{"input":1,"labels":` + labels + `}`))
		if refused != nil && refusal(refused) != want || refused == nil && string(got.labels) != want {
			t.Errorf("%s: %q, %q; want %q", labels, got.labels, refusal(refused), want)
		}
		if strings.Contains(want, "max") && (refused == nil || refused.Limit == 0) {
			t.Errorf("%s: no limit in %+v", labels, refused)
		}
	}
}

// All unknown members are named, up to a bound, and a name is not repeated at any length.
func TestUnknownMembersAreNamed(t *testing.T) {
	t.Parallel()
	_, refused := parseSubmission([]byte(`{"prio":1,"` + strings.Repeat("n", 5000) + `":2}`))
	if !strings.Contains(refused.Detail, `"prio", "nnn`) || len(refused.Detail) > 300 || len(refused.Errors[1].Pointer) > 200 {
		t.Errorf("refused with %+v", refused)
	}
	var many []string
	for i := range 100 {
		many = append(many, `"`+strings.Repeat("x", i+1)+`":1`)
	}
	_, refused = parseSubmission([]byte("{" + strings.Join(many, ",") + "}"))
	if len(refused.Errors) != problem.MaxErrors {
		t.Errorf("%d errors", len(refused.Errors))
	}
}

func TestParseResumption(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body    string
		want    resumption
		refused string
	}{
		"open wait":       {`{"input":{"approved":true}}`, resumption{input: []byte(`{"approved":true}`)}, ""},
		"named wait":      {`{"sequence":3,"input":1}`, resumption{input: []byte("1"), sequence: 3}, ""},
		"largest":         {`{"input":1,"sequence":9007199254740991}`, resumption{input: []byte("1"), sequence: 9007199254740991}, ""},
		"too large":       {`{"input":1,"sequence":9007199254740992}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"zero":            {`{"input":1,"sequence":0}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"negative":        {`{"input":1,"sequence":-1}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"fraction":        {`{"input":1,"sequence":1.5}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"whole":           {`{"input":1,"sequence":32.0}`, resumption{input: []byte("1"), sequence: 32}, ""},
		"beyond integers": {`{"input":1,"sequence":99999999999999999999}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"text":            {`{"input":1,"sequence":"1"}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"null":            {`{"input":1,"sequence":null}`, resumption{input: []byte("1")}, "invalid_request /sequence:type"},
		"missing":         {`{"sequence":1}`, resumption{}, "invalid_request :required"},
		"unknown":         {`{"input":1,"key":"k"}`, resumption{}, "invalid_request /key:unknown_member"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refused := parseResumption([]byte(test.body))
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(resumption{})); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if refusal(refused) != test.refused {
				t.Errorf("refused with %q, want %q", refusal(refused), test.refused)
			}
		})
	}
}

func TestParseCancellation(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("ü", maxReasonLength)
	tests := map[string]struct{ body, reason, refused string }{
		"no body":        {"", "", ""},
		"no reason":      {`{}`, "", ""},
		"reason":         {`{"reason":"caf\u00e9 \ud83d\ude00"}`, "café 😀", ""},
		"longest":        {`{"reason":"` + longest + `"}`, longest, ""},
		"longer":         {`{"reason":"` + longest + `x"}`, "", "invalid_request /reason:maxLength"},
		"not text":       {`{"reason":1}`, "", "invalid_request /reason:type"},
		"null":           {`{"reason":null}`, "", "invalid_request /reason:type"},
		"unknown":        {`{"why":"x"}`, "", "invalid_request /why:unknown_member"},
		"not an object":  {`"reason"`, "", "invalid_json :not_object"},
		"input is not":   {`{"input":1}`, "", "invalid_request /input:unknown_member"},
		"several faults": {`{"reason":1,"b":2}`, "", "invalid_request /b:unknown_member"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body []byte
			if test.body != "" {
				body = []byte(test.body)
			}
			reason, refused := parseCancellation(body)
			if reason != test.reason || refusal(refused) != test.refused {
				t.Errorf("%q, %q; want %q, %q", reason, refusal(refused), test.reason, test.refused)
			}
		})
	}
}
