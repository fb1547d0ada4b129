//go:build clients

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
)

// program is the path of what a test needs; without it the test fails and says what to do.
func program(t *testing.T, name, remedy string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: %s, or run scripts/test-clients, which does it", err, remedy)
	}
	return path
}

// daemon runs a program until the test ends.
func daemon(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()                                      // it was killed
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, out.String())
		}
	})
}

// saw are the chunks of events, as chronicle has them, and how often each name came.
func saw(events []event) (chunks []byte, names map[string]int) {
	names = map[string]int{}
	for _, e := range events {
		names[e.Name]++
		if e.Name == "chunk" {
			chunks = line(chunks, e.ID, e.Data)
		}
	}
	return chunks, names
}

// Python's clients read a stream to its end, come back within it, and learn that nothing is left.
func TestPythonClients(t *testing.T) {
	python := os.Getenv("WINDROW_TEST_PYTHON")
	if python == "" {
		t.Fatal("WINDROW_TEST_PYTHON names no interpreter that has what internal/e2e/testdata/requirements.txt lists: run scripts/test-clients")
	}
	f := newFleet(t, 1, redistest.Options{}, startHard, keepAll()...)
	for _, script := range []string{"read_httpx.py", "read_sseclient.py"} {
		t.Run(script, func(t *testing.T) {
			id := f.submit("ticker", `{"Offset":200,"Every":10,"Count":300,"Bytes":20}`)
			cmd := exec.CommandContext(f.ctx, python, filepath.Join("testdata", script), f.url()+"/v1/executions/"+id+"/stream", "70")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var events []event
			for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
				var e event
				if err := in.Decode(&e); err != nil {
					t.Fatal(err)
				}
				events = append(events, e)
			}
			chunks, names := saw(events)
			if want := f.chronicle(f.logs(), id); !bytes.Equal(chunks, want) || names["chunk"] != 300 {
				t.Errorf("%d chunks; they differ from the log from byte %d of %d on", names["chunk"], common(chunks, want), len(want))
			}
			if names["completed"] != 1 || names["204"] != 1 || names["gap"] != 0 {
				t.Errorf("%v", names)
			}
		})
	}
}

// Behind nginx, told of nothing but where to pass requests, events arrive at once, and a stream lives on for sixty times as long as
// nginx lets a server be silent. In place of 60 s and a keepalive of 15 s, that is 4 s and 1 s.
func TestBehindNginx(t *testing.T) {
	nginx := program(t, "/usr/sbin/nginx", "apt-get install nginx-light")
	timeouts := faultkit.Count(t, 5, 60)
	f := newFleet(t, 1, redistest.Options{}, startHard, keepAll("--keepalive", "1s")...)
	dir, addr := t.TempDir(), freeAddr(t)
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	proxy_read_timeout 4s;
	server { listen %[2]s; location / { proxy_pass %[3]s; } }
}
`, dir, addr, f.url())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon(t, exec.Command(nginx, "-e", "stderr", "-p", dir, "-c", conf))
	eventually(t, f.ctx, "nginx answers", func() bool {
		r, err := call(f.ctx, "GET", "http://"+addr+"/livez", "")
		return err == nil && r.Status == http.StatusOK
	})
	silence := time.Duration(timeouts) * 4 * time.Second
	id := f.submit("ticker", fmt.Sprintf(`{"Offset":500,"Every":%d,"Count":2}`, silence.Milliseconds()))
	begin, first := time.Now(), time.Duration(0)
	var events []event
	var slowest time.Duration
	_, err := follow(f.ctx, "http://"+addr, id, "", func(e event) bool {
		if first == 0 {
			first = time.Since(begin)
		}
		events = append(events, e)
		if e.Name == "chunk" {
			var c struct{ Payload tick }
			if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
				t.Error(err)
			}
			slowest = max(slowest, time.Since(time.Unix(0, c.Payload.At)))
		}
		return !e.terminal()
	})
	chunks, names := saw(events)
	t.Logf("figures: behind nginx the first event came after %s, and a chunk after %s; the stream lived through %s of silence", first.Round(time.Millisecond),
		slowest.Round(time.Millisecond), silence)
	if err != nil || names["completed"] != 1 || !bytes.Equal(chunks, f.chronicle(f.logs(), id)) {
		t.Errorf("%v after %s: %v", err, time.Since(begin), names)
	}
	if first > time.Second || slowest > time.Second {
		t.Errorf("the first event came after %s, a chunk after %s, at most 1 s", first, slowest)
	}
}

// newKey makes an API key, and the line that lists it.
func newKey(t *testing.T) (key, list string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary, "keys", "new", "--scopes", "submit,read", "--owner", "viewer")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return regexp.MustCompile(`wdr_\S+`).FindString(stderr.String()), "keys:\n" + stdout.String()
}

// A page of another origin follows with a stream token, through a restart of the server, sees all chunks and one end, and then
// lets go.
func TestBrowser(t *testing.T) {
	chromium := program(t, "chromium", "apt-get install chromium")
	key, list := newKey(t)
	events := make(chan event, 10_000)
	pages := http.NewServeMux()
	pages.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/page.html") })
	pages.HandleFunc("POST /seen", func(_ http.ResponseWriter, r *http.Request) {
		var e event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		events <- e
	})
	page := httptest.NewServer(pages)
	t.Cleanup(page.Close)

	f := newFleet(t, 1, redistest.Options{}, startHard, keepAll("--addr", freeAddr(t), "--cors-origin", page.URL, "--api-keys", list,
		"--stream-secret", strings.Repeat("s", 32), "--shutdown-grace", "200ms")...)
	bearer := "Authorization: Bearer " + key
	id := submit(t, f.ctx, f.url(), "ticker", `{"Offset":3000,"Every":50,"Count":100}`, bearer)
	var token struct{ Token string }
	must(t, f.ctx, http.StatusOK, "POST", f.url()+"/v1/executions/"+id+"/stream-token", "", bearer).decode(t, &token)
	stream := f.url() + "/v1/executions/" + id + "/stream?token=" + url.QueryEscape(token.Token)
	daemon(t, exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir="+t.TempDir(), page.URL+"/?stream="+url.QueryEscape(stream)))

	var all []event
	until := func(name string, n int) {
		t.Helper()
		for {
			if _, names := saw(all); names[name] >= n {
				return
			}
			select {
			case e := <-events:
				all = append(all, e)
			case <-f.ctx.Done():
				_, names := saw(all)
				t.Fatalf("the page has never seen %d times %s: %v", n, name, names)
			}
		}
	}
	until("chunk", 20)
	f.down(0).stop(t, 10*time.Second)
	f.replace(0)
	until("closed", 1)
	chunks, names := saw(all)
	want := f.chronicle(f.logs(), id)
	t.Logf("figures: the page saw %v", names)
	if !bytes.Equal(chunks, want) || names["gap"] != 0 || names["completed"] != 1 {
		t.Errorf("%v; the chunks differ from the log from byte %d of %d on", names, common(chunks, want), len(want))
	}
	if names["open"] < 2 || names["lost"] < 2 {
		t.Errorf("%v: the page has not come back", names)
	}
	quiet := time.NewTimer(5 * time.Second) // longer than the server asks to wait before coming back
	defer quiet.Stop()
	select {
	case e := <-events:
		t.Errorf("after the end: %v", e)
	case <-quiet.C:
	}
}
