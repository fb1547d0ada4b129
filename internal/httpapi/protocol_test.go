package httpapi

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// No deadline cuts a stream, whatever the protocol: it goes on for many times as long as a body or an event may take.
func TestDeadlinesSpareStreams(t *testing.T) {
	t.Parallel()
	const deadline = 400 * time.Millisecond
	for proto, start2 := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"HTTP/2.0": func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(s *setup) {
				s.api.BodyTimeout, s.api.SendTimeout, s.hub.Keepalive = deadline, deadline, deadline/2
			})
			path := r.running()
			server := httptest.NewUnstartedServer(r.server.Config.Handler)
			start2(server)
			defer server.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path+"/stream", nil)
			r.must(err)
			response, err := server.Client().Do(request)
			r.must(err)
			defer response.Body.Close()
			if response.Proto != proto {
				t.Fatalf("over %s", response.Proto)
			}
			keepalives, completed := 0, false
			for lines := bufio.NewScanner(response.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), ":") {
					keepalives++
				}
				if keepalives == 8 { // four times the deadline
					keepalives++
					r.release <- struct{}{}
				}
				completed = completed || lines.Text() == "event: completed"
			}
			if !completed {
				t.Errorf("cut after %d keepalives", keepalives)
			}
		})
	}
}

// Pages of the origins that are listed may call the API and read what clients need; others may not.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, func(s *setup) { s.api.Origins = []string{"https://app.example"} })
	r.client.Transport = r.server.Client().Transport // a preflight is no operation of the contract
	preflight := func(origin, header string) reply {
		return r.call("OPTIONS", submitPath("echo"), "", "Origin: "+origin, "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: "+header)
	}
	for _, header := range []string{"authorization", "content-type", "idempotency-key", "last-event-id", "prefer", "if-none-match"} {
		a := preflight("https://app.example", header)
		if a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
			a.header.Get("Access-Control-Allow-Headers") != header || a.header.Get("Access-Control-Max-Age") != "7200" ||
			a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %+v", header, a)
		}
	}
	if a := preflight("https://app.example", "cookie"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("cookies: %+v", a)
	}
	for _, origin := range []string{"https://app.example.evil", "http://app.example", "null", "https://APP.example:444"} {
		if a := preflight(origin, "authorization"); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %+v", origin, a)
		}
	}
	refused := r.call("GET", possible, "", "Origin: https://app.example") // a page must be able to read why
	exposed := strings.Split(refused.header.Get("Access-Control-Expose-Headers"), ", ")
	if refused.status != 401 || refused.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!slices.Contains(refused.header.Values("Vary"), "Origin") {
		t.Errorf("%+v", refused)
	}
	for _, name := range []string{"Location", "Etag", "Retry-After", "Ratelimit", "Preference-Applied", "X-Request-Id"} {
		if !slices.Contains(exposed, name) {
			t.Errorf("%s is not among %v", name, exposed)
		}
	}
	closed := start(t)
	closed.client.Transport = closed.server.Client().Transport
	if a := closed.call("GET", "/livez", "", "Origin: https://app.example"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%+v", a)
	}
}

// A trace is logged where it is as the standard has it.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for value, want := range map[string]string{
		"00-" + trace + "-" + parent + "-01": trace, " 00-" + trace + "-" + parent + "-00 ": trace, "cc-" + trace + "-" + parent + "-01-more": trace,
		"": "", "00-" + trace + "-" + parent + "-01-more": "", "ff-" + trace + "-" + parent + "-01": "", "00-" + strings.ToUpper(trace) + "-" + parent + "-01": "",
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01": "", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01": "",
		"00-" + trace + "-" + parent: "", "00-" + trace + "x-" + parent + "-01": "",
	} {
		got, ok := traceID(http.Header{"Traceparent": {value}})
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", value, got, ok)
		}
	}
	if got, ok := traceID(http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01", "x"}}); ok {
		t.Errorf("twice: %q", got)
	}
	r := start(t)
	r.call("GET", possible, "", "Traceparent: 00-"+trace+"-"+parent+"-01")
	r.call("GET", possible, "")
	r.metrics.until(t, func(m *tally) bool { return m.answered == 2 })
	if lines := r.journal.lines(t); len(lines) != 2 || lines[0]["trace_id"] != trace || lines[1]["trace_id"] != nil {
		t.Errorf("logged %v", lines)
	}
}
