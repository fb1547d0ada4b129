package redistest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// place describes surroundings in which some of the three ways exist.
type place struct {
	env      map[string]string
	binaries []string
	docker   bool
}

func (p place) surroundings() surroundings {
	return surroundings{
		getenv: func(name string) string { return p.env[name] },
		lookPath: func(name string) (string, error) {
			if slices.Contains(p.binaries, name) {
				return path.Join("/", "bin", name), nil
			}
			return "", fs.ErrNotExist
		},
		docker: func() error {
			if p.docker {
				return nil
			}
			return errors.New("connection refused")
		},
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	const url = "redis://127.0.0.1:1/0"
	both := []string{"valkey-server", "redis-server"}
	tests := []struct {
		name string
		in   place
		want source
	}{
		{"the URL comes first", place{map[string]string{envURL: url}, both, true}, source{fromURL, url}},
		{"then a binary", place{nil, both, true}, source{fromPath, "/bin/redis-server"}},
		{"Valkey is as good", place{nil, both[:1], true}, source{fromPath, "/bin/valkey-server"}},
		{"then Docker", place{nil, nil, true}, source{fromDocker, defaultImage}},
		{"with the image asked for", place{map[string]string{envImage: "x:1"}, nil, true}, source{fromDocker, "x:1"}},
		{"a named binary comes before the PATH", place{map[string]string{envBinary: "old"}, append(both, "old"), true}, source{fromPath, "/bin/old"}},
		{"but not before a URL", place{map[string]string{envBinary: "old", envURL: url}, append(both, "old"), true}, source{fromURL, url}},
		{"several servers come from a binary", place{map[string]string{envTopology: cluster, envURL: url}, both, true}, source{fromPath, "/bin/redis-server"}},
		{"also where that is said", place{map[string]string{envTopology: sentinel, envFrom: fromPath}, both, true}, source{fromPath, "/bin/redis-server"}},
		{"a forced way skips those before it", place{map[string]string{envURL: url, envFrom: fromDocker}, both, true}, source{fromDocker, defaultImage}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.in.surroundings().locate()
			if err != nil {
				t.Fatalf("locate: %v", err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(source{})); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocateRefuses(t *testing.T) {
	t.Parallel()
	for reason, env := range map[string]map[string]string{
		`WINDROW_TEST_REDIS_TOPOLOGY=ring: want single, cluster or sentinel`:                       {envTopology: "ring"},
		`WINDROW_TEST_REDIS_TOPOLOGY=cluster needs a binary: WINDROW_TEST_REDIS_FROM=docker can't`: {envTopology: cluster, envFrom: fromDocker},
		`WINDROW_TEST_REDIS_BINARY: file does not exist`:                                           {envBinary: "gone", envTopology: sentinel},
	} {
		src, err := place{env: env, binaries: []string{"redis-server"}, docker: true}.surroundings().locate()
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v: found %v, error %v", env, src, err)
		}
	}
}

func TestLocateNamesRemedies(t *testing.T) {
	t.Parallel()
	forced := func(from string) place { return place{env: map[string]string{envFrom: from}} }
	tests := []struct {
		name   string
		in     place
		reason string
	}{
		{"nothing is there", place{}, errNoBinary.Error()},
		{"forced URL is unset", forced(fromURL), envURL + " is not set"},
		{"forced binary is missing", forced(fromPath), errNoBinary.Error()},
		{"forced Docker is down", forced(fromDocker), "connection refused"},
		{"unknown way", forced("cloud"), `unknown way "cloud"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := test.in.surroundings().locate()
			if err == nil {
				t.Fatal("found a server where there is none")
			}
			for _, want := range []string{test.reason, envURL + "=", "apt-get install redis-server", "Docker"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("message lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// recorder is a test that may fail without failing the real one.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = strings.TrimSpace(strings.Join([]string{format, errorText(args)}, " "))
	panic(r)
}

// errorText is the text of the only argument that the harness gives to Fatalf in these cases.
func errorText(args []any) string {
	if len(args) == 1 {
		if err, ok := args[0].(error); ok {
			return err.Error()
		}
	}
	return ""
}

// failureOf runs f as a test of its own and returns what it failed with.
func failureOf(f func(testing.TB)) string {
	r := &recorder{}
	func() {
		defer func() {
			if caught := recover(); caught != nil && caught != any(r) {
				panic(caught)
			}
		}()
		f(r)
	}()
	return r.failure
}

// A test without a server must fail, not skip, however often one is asked for.
func TestNoServerFailsTheTest(t *testing.T) {
	t.Parallel()
	h := &harness{around: place{}.surroundings()}
	for range 2 {
		if got := failureOf(func(tb testing.TB) { h.mustURL(tb) }); !strings.Contains(got, remedies) {
			t.Errorf("failure %q does not name the remedies", got)
		}
	}
	got := failureOf(func(tb testing.TB) { h.around.private(tb, Options{}) })
	if !strings.Contains(got, "apt-get install redis-server") {
		t.Errorf("failure %q of a private server does not name its remedy", got)
	}
}
