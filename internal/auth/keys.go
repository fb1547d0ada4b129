package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windrow-run/windrow/internal/reload"
)

// Keys are the API keys that are accepted.
type Keys struct {
	set    atomic.Pointer[map[string]accepted] // by id
	source *reload.Source                      // nil: they never change
}

// accepted is one key.
type accepted struct {
	sum       [sha256.Size]byte
	principal Principal
	expires   time.Time // zero: never
}

// ReadKeys returns the keys that a document lists.
func ReadKeys(document string) (*Keys, error) {
	k := &Keys{}
	err := k.take([][]byte{[]byte(document)})
	return k, err
}

// OpenKeys returns the keys that a file lists, and follows its changes while [Bearer.Run] runs.
func OpenKeys(path string, log *slog.Logger) (*Keys, error) {
	k := &Keys{}
	var err error
	k.source, err = reload.Open("API keys", log, k.take, path)
	return k, err
}

func (k *Keys) take(contents [][]byte) error {
	set, err := parseKeys(contents[0])
	if err != nil {
		return err
	}
	k.set.Store(&set)
	return nil
}

// find tells whose key it is. A key that was revoked and one that never was are answered alike.
func (k *Keys) find(key string) (Principal, error) {
	id, ok := keyID(key)
	if !ok {
		return Principal{}, invalid("The API key is not whole: it was mistyped or cut off.")
	}
	found, ok := (*k.set.Load())[id]
	sum := sha256.Sum256([]byte(key))
	if !ok || subtle.ConstantTimeCompare(sum[:], found.sum[:]) != 1 {
		return Principal{}, invalid("The API key is not known.")
	}
	if !found.expires.IsZero() && !time.Now().Before(found.expires) {
		return Principal{}, invalid("The API key has expired.")
	}
	return found.principal, nil
}

func (k *Keys) run(ctx context.Context) error {
	if k.source == nil {
		return nil
	}
	return k.source.Run(ctx)
}

func (k *Keys) condition() string {
	if k.source == nil {
		return ""
	}
	return k.source.Condition()
}

// KeyEntry is a key as a document lists it.
type KeyEntry struct {
	ID          string     `yaml:"id"`
	Hash        string     `yaml:"hash"` // as [HashKey] writes it
	Scopes      []Scope    `yaml:"scopes"`
	Owner       string     `yaml:"owner"`       // empty: the key sees every owner's executions
	Deployments []string   `yaml:"deployments"` // none: all
	Expires     *time.Time `yaml:"expires"`     // nil: never
	Note        string     `yaml:"note"`        // for people
}

// Line is the entry as a line of the document's list: YAML, and JSON but for the names.
func (e KeyEntry) Line() string {
	parts := []string{"id: " + e.ID, fmt.Sprintf("hash: %q", e.Hash), "scopes: [" + joined(e.Scopes) + "]"}
	if e.Owner != "" {
		parts = append(parts, fmt.Sprintf("owner: %q", e.Owner))
	}
	if len(e.Deployments) > 0 {
		parts = append(parts, fmt.Sprintf("deployments: [%s]", quoted(e.Deployments)))
	}
	if e.Expires != nil {
		parts = append(parts, "expires: "+e.Expires.UTC().Format(time.RFC3339))
	}
	if e.Note != "" {
		parts = append(parts, fmt.Sprintf("note: %q", e.Note))
	}
	return "  - {" + strings.Join(parts, ", ") + "}"
}

func joined(scopes []Scope) string {
	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

func quoted(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(texts, ", ")
}

// parseKeys reads a document. Nothing in it may be unknown: an option that is not understood might be a limit.
func parseKeys(document []byte) (map[string]accepted, error) {
	var read struct {
		Keys []KeyEntry `yaml:"keys"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(document))
	decoder.KnownFields(true)
	if err := decoder.Decode(&read); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(hidden(err.Error()))
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("there must be one YAML document")
	}
	if len(read.Keys) == 0 {
		return nil, errors.New("no key is listed under \"keys\": `windrow keys new` makes one")
	}
	set := map[string]accepted{}
	for i, entry := range read.Keys {
		one, err := entry.accepted()
		if _, twice := set[entry.ID]; twice && err == nil {
			err = errors.New("an earlier key has this id")
		}
		if err != nil {
			return nil, fmt.Errorf("key %d (id %q): %w", i+1, shortened(entry.ID), err)
		}
		set[entry.ID] = one
	}
	return set, nil
}

// hidden leaves out what an error of the YAML library quotes of the document, which may be a key in the wrong place.
func hidden(text string) string {
	return strings.ReplaceAll(regexp.MustCompile("`[^`]*`").ReplaceAllString(text, "a value"), "\n ", "")
}

// shortened is an id as errors show it: whoever puts a whole key there must not find it in the log.
func shortened(id string) string { return id[:min(len(id), keyIDLength)] }

// Check reports what is wrong with an entry; nil: nothing.
func (e KeyEntry) Check() error {
	_, err := e.accepted()
	return err
}

func (e KeyEntry) accepted() (accepted, error) {
	if !regexp.MustCompile(`^[A-Z2-7]{12}$`).MatchString(e.ID) {
		return accepted{}, errors.New("the id must be the 12 letters and digits that follow " + keyPrefix + " in the key")
	}
	sum, ok := parseHash(e.Hash)
	if !ok {
		return accepted{}, errors.New("the hash must be sha256: and the 64 hex digits of the key's SHA-256")
	}
	if len(e.Scopes) == 0 {
		return accepted{}, errors.New("scopes must name at least one of " + joined(Scopes()))
	}
	for _, s := range e.Scopes {
		if !slices.Contains(Scopes(), s) {
			return accepted{}, fmt.Errorf("the scope %q is none of %s", s, joined(Scopes()))
		}
	}
	if e.Owner != "" && !ValidOwner(e.Owner) {
		return accepted{}, errors.New("the owner must have at most 255 characters, none of them a control character")
	}
	for _, name := range e.Deployments {
		if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(name) {
			return accepted{}, fmt.Errorf("%q can't name a deployment", name)
		}
	}
	one := accepted{sum: sum, principal: Principal{Owner: e.Owner, Scopes: e.Scopes, Deployments: e.Deployments, Name: "key:" + e.ID}}
	one.principal.account = accountOf("key", e.ID)
	if e.Owner != "" {
		one.principal.account = accountOf("owner", e.Owner)
	}
	if e.Expires != nil {
		one.expires = *e.Expires
	}
	return one, nil
}
