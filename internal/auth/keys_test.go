package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/reload"
)

// listed makes a key with an entry for it, which may be changed.
func listed(change func(*auth.KeyEntry)) (key string, entry auth.KeyEntry) {
	key, id := auth.NewKey()
	entry = auth.KeyEntry{ID: id, Hash: auth.HashKey(key), Scopes: []auth.Scope{auth.Read}}
	if change != nil {
		change(&entry)
	}
	return key, entry
}

func document(entries ...auth.KeyEntry) string {
	text := "keys:\n"
	for _, e := range entries {
		text += e.Line() + "\n"
	}
	return text
}

// ask tells who sends a token, or why it is not accepted.
func ask(t *testing.T, b *auth.Bearer, token string) (auth.Principal, string) {
	t.Helper()
	p, err := b.Authenticate(t.Context(), token)
	if err == nil {
		return p, ""
	}
	var refused *auth.Error
	if !errors.As(err, &refused) || refused.Unavailable {
		t.Fatalf("%v", err)
	}
	return p, refused.Detail
}

// A key has the form that scanners look for, no two are alike, and its entry in the list says what its holder may do.
func TestKeys(t *testing.T) {
	t.Parallel()
	plain, one := listed(nil)
	limited, two := listed(func(e *auth.KeyEntry) {
		e.Owner, e.Deployments, e.Scopes, e.Note = `a "b": {c} é`, []string{"echo", "story"}, auth.Scopes(), "x: y\n"
	})
	if !regexp.MustCompile(`^wdr_[A-Z2-7]{12}_[A-Z2-7]{52}[0-9a-f]{8}$`).MatchString(plain) || plain == limited || one.ID == two.ID {
		t.Errorf("made %s and %s", plain, limited)
	}
	keys, err := auth.ReadKeys(document(one, two))
	if err != nil {
		t.Fatal(err)
	}
	b := &auth.Bearer{Keys: keys}
	p, refused := ask(t, b, plain)
	if refused != "" || !p.Unlimited() || !p.May(auth.Read) || p.May(auth.Submit) || !p.MayUse("any") || !p.MaySee("x") {
		t.Errorf("%+v, %s", p, refused)
	}
	q, refused := ask(t, b, limited)
	if refused != "" || q.Owner != `a "b": {c} é` || !q.May(auth.Admin) || !q.MayUse("echo") || q.MayUse("other") || q.Account() == p.Account() {
		t.Errorf("%+v, %s", q, refused)
	}
	revoked, _ := listed(nil)
	forged := strings.Replace(plain, one.ID, two.ID, 1) // its checksum does not fit any more
	for token, want := range map[string]string{
		revoked: "The API key is not known.", plain[:len(plain)-1]: "The API key is not whole: it was mistyped or cut off.",
		forged: "The API key is not whole: it was mistyped or cut off.", plain + "0": "The API key is not whole: it was mistyped or cut off.",
		"wdr_": "The API key is not whole: it was mistyped or cut off.", "": "The token is not one that is accepted here.",
		"ey.j.x": "The token is not one that is accepted here.",
	} {
		if p, got := ask(t, b, token); got != want || !cmp.Equal(p, auth.Principal{}, cmp.AllowUnexported(auth.Principal{})) {
			t.Errorf("%q: %+v, %q", token, p, got)
		}
	}
}

// A key of the same id with another secret is not accepted.
func TestSecretCounts(t *testing.T) {
	t.Parallel()
	key, entry := listed(nil)
	_, other := listed(nil)
	entry.Hash = other.Hash
	keys, err := auth.ReadKeys(document(entry))
	if err != nil {
		t.Fatal(err)
	}
	if p, got := ask(t, &auth.Bearer{Keys: keys}, key); got != "The API key is not known." {
		t.Errorf("%+v, %q", p, got)
	}
}

// A key is accepted until it expires.
func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		expires := time.Now().Add(time.Minute)
		key, entry := listed(func(e *auth.KeyEntry) { e.Expires = &expires })
		keys, err := auth.ReadKeys(document(entry))
		if err != nil {
			t.Fatal(err)
		}
		b := &auth.Bearer{Keys: keys}
		<-time.After(time.Minute - time.Nanosecond)
		if _, refused := ask(t, b, key); refused != "" {
			t.Error(refused)
		}
		<-time.After(time.Nanosecond)
		if _, refused := ask(t, b, key); refused != "The API key has expired." {
			t.Error(refused)
		}
	})
}

// A document that is not understood to its last word is refused, and its errors repeat no key.
func TestReadKeysRefuses(t *testing.T) {
	t.Parallel()
	key, good := listed(nil)
	line := good.Line() + "\n"
	for text, want := range map[string]string{
		"":                        "no key is listed",
		"keys: []":                "no key is listed",
		"keys: " + key:            "line 1: cannot unmarshal",
		"keys:\n" + line + "x: 1": "line 3: field x not found",
		"keys:\n" + strings.Replace(line, "id:", "ownr: b, id:", 1):                        "line 2: field ownr not found",
		"keys:\n" + line + "---\nkeys: []":                                                 "one YAML document",
		"keys:\n" + line + line:                                                            "an earlier key has this id",
		"keys:\n  - {id: " + key + "}":                                                     "the id must be",
		"keys:\n" + strings.Replace(line, good.Hash, key, 1):                               "the hash must be",
		"keys:\n" + strings.Replace(line, good.Hash, "sha256:"+strings.Repeat("x", 64), 1): "the hash must be",
		"keys:\n" + strings.Replace(line, "[read]", "[]", 1):                               "scopes must name",
		"keys:\n" + strings.Replace(line, "[read]", "[read, root]", 1):                     `the scope "root" is none of`,
		"keys:\n" + strings.Replace(line, "}", `, owner: "a\n"}`, 1):                       "the owner must",
		"keys:\n" + strings.Replace(line, "}", `, deployments: ["a b"]}`, 1):               `"a b" can't name a deployment`,
		"keys:\n" + strings.Replace(line, "}", `, expires: soon}`, 1):                      "cannot parse",
	} {
		_, err := auth.ReadKeys(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key[:30]) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// state is which of two keys are accepted, and whether something is wrong.
type state struct{ first, second, wrong bool }

// A file of keys is followed: new keys are accepted, revoked ones are not, and a broken file changes nothing but a condition.
func TestKeysAreReloaded(t *testing.T) {
	t.Parallel()
	first, one := listed(nil)
	second, two := listed(nil)
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(document(one))
	synctest.Test(t, func(t *testing.T) {
		keys, err := auth.OpenKeys(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		b := &auth.Bearer{Keys: keys}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		accepted := func() state {
			<-time.After(reload.Interval)
			synctest.Wait()
			_, one := ask(t, b, first)
			_, two := ask(t, b, second)
			return state{one == "", two == "", strings.Join(b.Conditions(), "") != ""}
		}
		for _, step := range []struct {
			text string
			want state
		}{
			{document(one), state{true, false, false}}, {document(one, two), state{true, true, false}}, {"keys: [", state{true, true, true}},
			{"", state{true, true, true}}, {document(two), state{false, true, false}},
		} {
			write(step.text)
			if got := accepted(); got != step.want {
				t.Errorf("%s: %+v", step.text, got)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Whoever makes a request where nobody has to say who they are may do everything.
func TestAnyone(t *testing.T) {
	t.Parallel()
	p := auth.Anyone()
	for _, s := range auth.Scopes() {
		if !p.May(s) {
			t.Errorf("may not %s", s)
		}
	}
	if !p.Unlimited() || !p.MayUse("x") || !p.MaySee("x") {
		t.Errorf("%+v", p)
	}
}
