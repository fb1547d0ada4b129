package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is what these tests read of one package from go list.
type listed struct {
	ImportPath   string
	Name         string
	Doc          string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	Error        *struct{ Err string }
}

// rel is the package's path within the module.
func (p listed) rel() string { return relative(p.ImportPath) }

// testSupport reports whether the package only serves tests.
func (p listed) testSupport() bool { return servesTests(p.ImportPath) }

// servesTests reports whether the path is that of a package that only serves tests: its name ends with that, or with kit.
func servesTests(path string) bool {
	return strings.HasSuffix(path, "test") || strings.HasSuffix(path, "kit")
}

// allImports are the imports of the package and of its tests.
func (p listed) allImports() []string {
	var all []string
	for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
		all = append(all, imports...)
	}
	return all
}

// files are the full paths of all Go files of the package.
func (p listed) files() []string {
	var all []string
	for _, names := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
		for _, name := range names {
			all = append(all, filepath.Join(p.Dir, name))
		}
	}
	return all
}

// root is the module's folder as these tests see it.
func root() string { return filepath.Join("..", "..") }

// packages lists all packages of the module.
func packages(t *testing.T) []listed {
	t.Helper()
	watchTree(t)
	command := exec.CommandContext(t.Context(), "go", "list", "-json", "./...")
	command.Dir = root()
	out, err := command.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	return decode(t, string(out))
}

// watchTree reads every folder of the module. go test caches a result until
// something changes that the test itself has opened; what go list reads it
// doesn't see.
func watchTree(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root() && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatalf("walk the module: %v", err)
	}
}

func decode(t *testing.T, out string) []listed {
	t.Helper()
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		if p.Error != nil {
			t.Fatalf("go list: %s: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
}

// within reports whether path is base or stands below it.
func within(path, base string) bool {
	return path == base || strings.HasPrefix(path, base+"/")
}

// ours reports whether an import path belongs to the module.
func ours(path string) bool { return within(path, module) }

// relative is an import path within the module, "." for its root.
func relative(path string) string {
	if rel := strings.TrimPrefix(strings.TrimPrefix(path, module), "/"); rel != "" {
		return rel
	}
	return "."
}
