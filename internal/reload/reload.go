// Package reload follows settings that live in files and change while a server runs: keys, certificates.
//
// Files are read again and again and compared by what they hold, so that it does not matter how they are replaced: written in
// place, renamed, or behind a symbolic link, as Kubernetes mounts them. What is new is taken as a whole or not at all: content
// that can't be used leaves the last that could in force, is logged once, and shows as a condition until it is mended.
package reload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Interval is how often files are looked at.
const Interval = 2 * time.Second

// Source is a setting in one or more files that belong together. Its methods are safe for concurrent use.
type Source struct {
	name  string
	paths []string
	apply func(contents [][]byte) error
	log   *slog.Logger

	mu      sync.Mutex // guards the following
	inForce []byte     // digest of what was applied last
	broken  string     // why newer content is not in force; empty: it is
}

// Open reads the files and applies what they hold: apply gets the contents in the order of the paths, and changes nothing where
// it returns an error. The name says in logs and conditions what the files hold, such as "API keys". An error says that the
// files can't be used at all.
func Open(name string, log *slog.Logger, apply func(contents [][]byte) error, paths ...string) (*Source, error) {
	s := &Source{name: name, paths: paths, apply: apply, log: log}
	contents, err := s.read()
	if err == nil {
		err = apply(contents)
	}
	if err != nil {
		return nil, err
	}
	s.inForce = digest(contents)
	return s, nil
}

// Run looks at the files until ctx ends, and then returns nil.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Check()
		case <-ctx.Done():
			return nil
		}
	}
}

// Check looks at the files once.
func (s *Source) Check() {
	contents, err := s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := digest(contents)
	if err == nil && bytes.Equal(found, s.inForce) {
		s.broken = ""
		return
	}
	if err == nil {
		err = s.apply(contents)
	}
	if err != nil {
		s.keep(err.Error())
		return
	}
	s.inForce, s.broken = found, ""
	s.log.Info("a changed setting is in force", "setting", s.name)
}

// keep stays with what is in force, and says so once for each reason.
func (s *Source) keep(reason string) {
	if reason != s.broken {
		s.log.Warn("a changed setting can't be used; the last good one stays in force", "setting", s.name, "error", reason)
	}
	s.broken = reason
}

// Condition says in a sentence what is wrong with the files as they are now; empty: nothing.
func (s *Source) Condition() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == "" {
		return ""
	}
	return fmt.Sprintf("The %s in force are older than their files, which can't be used: %s.", s.name, s.broken)
}

func (s *Source) read() (contents [][]byte, err error) {
	for _, path := range s.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
	return contents, nil
}

// digest tells contents apart, also where bytes move from one file to the next.
func digest(contents [][]byte) []byte {
	all := sha256.New()
	for _, content := range contents {
		one := sha256.Sum256(content)
		all.Write(one[:])
	}
	return all.Sum(nil)
}
