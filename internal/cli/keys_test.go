package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/auth"
)

// A new key is shown once, apart from its line, which lists it as it was asked for.
func TestNewKey(t *testing.T) {
	t.Parallel()
	p := program{}
	args := strings.Fields("keys new --scopes submit,read --owner acme --deployments story,echo --lifetime 1h --note n")
	if code := p.run(t.Context(), args...); code != 0 {
		t.Fatalf("exit %d: %s", code, p.err.String())
	}
	key := regexp.MustCompile(`wdr_\w+`).FindString(p.err.String())
	if key == "" || strings.Contains(p.out.String(), key) || strings.Count(p.out.String(), "\n") != 1 {
		t.Errorf("%s\n%s", p.out.String(), p.err.String())
	}
	keys, err := auth.ReadKeys("keys:\n" + p.out.String())
	if err != nil {
		t.Fatal(err)
	}
	who, err := (&auth.Bearer{Keys: keys}).Authenticate(t.Context(), key)
	if err != nil || who.Owner != "acme" || !who.May(auth.Submit) || !who.May(auth.Read) || who.May(auth.Resume) || !who.MayUse("echo") || who.MayUse("ask") {
		t.Errorf("%+v, %v", who, err)
	}
	if want := time.Now().Add(time.Hour).UTC().Format("expires: 2006-01-02T15:"); !strings.Contains(p.out.String(), want) {
		t.Errorf("%s lacks %s", p.out.String(), want)
	}
}

func TestNewKeyRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "scopes must name", "--scopes root": `"root" is none of submit, read, resume, worker, admin`,
		"--scopes read --lifetime -1s": "--lifetime", "--scopes read --deployments a/b": "can't name a deployment", "x": "takes no arguments",
	} {
		p := program{}
		if code := p.run(t.Context(), append([]string{"keys", "new"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(p.err.String(), want) || p.out.Len() > 0 {
			t.Errorf("%s: exit %d: %s", args, code, p.err.String())
		}
	}
}

// The list that the documentation shows is one that a server takes.
func TestDocumentedKeys(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "```yaml\n")
	list, _, _ = strings.Cut(list, "```")
	if _, err := auth.ReadKeys(list); err != nil || !found {
		t.Errorf("%s: %v", list, err)
	}
}

// Client commands send the token of the flag, or else of the variable, and say what to do where one is missing.
func TestToken(t *testing.T) {
	t.Parallel()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"type":"https://windrow.run/problems/unauthenticated","title":"T","status":401,"code":"unauthenticated"}`))
	}))
	defer server.Close()
	for _, tc := range []struct {
		env  map[string]string
		args string
		want string
	}{
		{nil, "", ""}, {map[string]string{"WINDROW_TOKEN": "e\n"}, "", "Bearer e"}, {map[string]string{"WINDROW_TOKEN": "e"}, "--token f", "Bearer f"},
	} {
		for _, command := range []string{"get x", "watch x", "submit d", "resume x 1", "cancel x"} {
			p := program{env: tc.env}
			args := strings.Fields(command + " --server " + server.URL + " " + tc.args)
			if code := p.run(t.Context(), args...); code != 1 || got != tc.want || !strings.Contains(p.err.String(), "--token or WINDROW_TOKEN names an API key or a JWT") {
				t.Errorf("%s: exit %d, sent %q: %s", args, code, got, p.err.String())
			}
		}
	}
}
