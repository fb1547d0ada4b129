package redistest

import (
	"errors"
	"fmt"
	"strings"
)

// The environment variables that choose the shared server.
const (
	envURL      = "WINDROW_TEST_REDIS_URL"
	envFrom     = "WINDROW_TEST_REDIS_FROM"
	envImage    = "WINDROW_TEST_REDIS_IMAGE"
	envBinary   = "WINDROW_TEST_REDIS_BINARY"
	envTopology = "WINDROW_TEST_REDIS_TOPOLOGY"
)

// The three ways to a server, as WINDROW_TEST_REDIS_FROM spells them.
const (
	fromURL    = "url"
	fromPath   = "path"
	fromDocker = "docker"
)

// The topologies of the shared server, as WINDROW_TEST_REDIS_TOPOLOGY spells them.
const (
	single   = "single"
	cluster  = "cluster"
	sentinel = "sentinel"
)

// defaultImage is what Docker runs unless WINDROW_TEST_REDIS_IMAGE says otherwise.
const defaultImage = "redis:7-alpine"

// remedies tells a person how to provide a server; every failure to find one ends with it.
const remedies = `Tests need a Redis (6.2 or newer) or Valkey (7.2 or newer) server. Any one of these will do:
  1. a running server:  export ` + envURL + `=redis://127.0.0.1:6379/15
  2. a binary on the PATH, started by the tests:  apt-get install redis-server  (or: brew install redis)
  3. a Docker daemon that answers, which runs ` + envImage + ` (default ` + defaultImage + `)`

// errNoBinary says that neither server binary is on the PATH.
var errNoBinary = errors.New("no redis-server and no valkey-server on the PATH")

// source says where a server comes from.
type source struct {
	from  string // fromURL, fromPath or fromDocker
	value string // the URL, the path of the binary, or the image
}

// surroundings is what the search for a server looks at.
type surroundings struct {
	getenv   func(string) string
	lookPath func(string) (string, error)
	docker   func() error // nil when a Docker daemon answers
}

// locate finds the source of the shared server in the documented order, or
// only the one that WINDROW_TEST_REDIS_FROM forces. More servers than one are always started from a binary. Its errors name
// the remedies.
func (s surroundings) locate() (source, error) {
	forced := s.getenv(envFrom)
	order := []string{fromURL, fromPath, fromDocker}
	topology, err := s.topology()
	if err != nil {
		return source{}, err
	}
	if topology != single {
		order = []string{fromPath}
		if forced != "" && forced != fromPath {
			return source{}, fmt.Errorf("%s=%s needs a binary: %s=%s can't be had with it", envTopology, topology, envFrom, forced)
		}
	}
	if forced != "" {
		order = []string{forced}
	}
	var reasons []string
	for _, from := range order {
		src, err := s.try(from)
		if err == nil {
			return src, nil
		}
		reasons = append(reasons, err.Error())
	}
	if forced != "" {
		return source{}, fmt.Errorf("%s=%s: %s\n%s", envFrom, forced, reasons[0], remedies)
	}
	return source{}, fmt.Errorf("no Redis for this test: %s\n%s", strings.Join(reasons, "; "), remedies)
}

// try looks for one kind of source.
func (s surroundings) try(from string) (source, error) {
	switch from {
	case fromURL:
		if url := s.getenv(envURL); url != "" {
			return source{from, url}, nil
		}
		return source{}, errors.New(envURL + " is not set")
	case fromPath:
		binary, err := s.binary()
		return source{from, binary}, err
	case fromDocker:
		if err := s.docker(); err != nil {
			return source{}, fmt.Errorf("no Docker daemon answers (%w)", err)
		}
		return source{from, s.image()}, nil
	default:
		return source{}, fmt.Errorf("unknown way %q, want %s, %s or %s", from, fromURL, fromPath, fromDocker)
	}
}

// topology is that of the shared server.
func (s surroundings) topology() (string, error) {
	switch asked := s.getenv(envTopology); asked {
	case "", single:
		return single, nil
	case cluster, sentinel:
		return asked, nil
	default:
		return "", fmt.Errorf("%s=%s: want %s, %s or %s", envTopology, asked, single, cluster, sentinel)
	}
}

// binary finds the server binary: the one that WINDROW_TEST_REDIS_BINARY names, or the first on the PATH.
func (s surroundings) binary() (string, error) {
	if named := s.getenv(envBinary); named != "" {
		path, err := s.lookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", envBinary, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := s.lookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBinary
}

func (s surroundings) image() string {
	if image := s.getenv(envImage); image != "" {
		return image
	}
	return defaultImage
}
