package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// rule finds what is wrong with one package among all.
type rule func(p listed) []string

// Every rule holds for every package of the module.
func TestRules(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for name, check := range rules() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range all {
				for _, problem := range check(p) {
					t.Errorf("%s: %s", p.rel(), problem)
				}
			}
		})
	}
}

func rules() map[string]rule {
	return map[string]rule{
		"dependencies stay with their keepers":         keptDependencies,
		"banned dependencies":                          bannedDependencies,
		"arrows run down":                              arrowsRunDown,
		"the domain imports the standard library only": domainIsLeaf,
		"shipped packages know no tests":               shippedKnowNoTests,
		"packages say what they are":                   documented,
		"names say something":                          named,
	}
}

func keptDependencies(p listed) (problems []string) {
	for _, k := range keepers() {
		allowed := func(base string) bool { return within(p.rel(), base) }
		if slices.ContainsFunc(k.only, allowed) {
			continue
		}
		if imported := below(p.allImports(), k.dependency); imported != "" {
			problems = append(problems, fmt.Sprintf("imports %s, which only %v may: %s", imported, k.only, k.reason))
		}
	}
	return problems
}

func bannedDependencies(p listed) (problems []string) {
	for _, b := range bans() {
		if !within(p.rel(), b.from) || p.testSupport() {
			continue
		}
		imports := p.Imports
		if b.deep {
			imports = p.Deps
		}
		if imported := below(imports, b.dependency); imported != "" {
			problems = append(problems, fmt.Sprintf("depends on %s: %s", imported, b.reason))
		}
	}
	return problems
}

// arrowsRunDown looks at shipped code: tests may assemble several floors.
func arrowsRunDown(p listed) (problems []string) {
	if p.testSupport() {
		return nil
	}
	from, ok := floorOf(p.rel())
	if !ok {
		return []string{"stands on no floor; give it one in floors"}
	}
	for _, imported := range p.Imports {
		if !ours(imported) {
			continue
		}
		to, ok := floorOf(relative(imported))
		nested := ok && to.path == from.path
		if ok && !nested && to.level >= from.level {
			problems = append(problems, fmt.Sprintf("imports %s, which is not below it", relative(imported)))
		}
	}
	return problems
}

func domainIsLeaf(p listed) (problems []string) {
	if !within(p.rel(), "internal/execution") || p.testSupport() {
		return nil
	}
	for _, imported := range p.Imports {
		first, _, _ := strings.Cut(imported, "/")
		if strings.Contains(first, ".") {
			problems = append(problems, "imports "+imported)
		}
		if slices.Contains([]string{"context", "os", "net", "net/http", "io/fs"}, imported) {
			problems = append(problems, "imports "+imported+": the domain does no I/O")
		}
	}
	return problems
}

func shippedKnowNoTests(p listed) (problems []string) {
	if p.testSupport() {
		return nil
	}
	for _, imported := range p.Imports {
		if within(imported, "testing") {
			problems = append(problems, "imports "+imported+" in code that ships")
		}
		if ours(imported) && servesTests(imported) {
			problems = append(problems, "imports the test support "+relative(imported)+" in code that ships")
		}
	}
	return problems
}

func documented(p listed) (problems []string) {
	if p.Doc == "" {
		problems = append(problems, "has no package comment")
	}
	for _, file := range p.files() {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && function.Recv == nil && function.Name.Name == "init" {
				problems = append(problems, "has an init function in "+path.Base(file)+": behavior must not come with an import")
			}
		}
	}
	return problems
}

func named(p listed) []string {
	last := path.Base(p.ImportPath)
	for _, name := range []string{p.Name, last} {
		if slices.Contains(vagueNames(), name) || strings.HasSuffix(name, "util") || strings.HasSuffix(name, "utils") {
			return []string{"its name does not say what it is for"}
		}
	}
	return nil
}

// below returns the first of the imports that is dependency or stands below
// it, "" when there is none.
func below(imports []string, dependency string) string {
	i := slices.IndexFunc(imports, func(imported string) bool { return within(imported, dependency) })
	if i < 0 {
		return ""
	}
	return imports[i]
}

// floorOf returns the floor whose path matches longest.
func floorOf(rel string) (floor, bool) {
	var found floor
	for _, f := range floors() {
		if within(rel, f.path) && len(f.path) > len(found.path) {
			found = f
		}
	}
	return found, found.path != ""
}

// The rules find what they are for: each case breaks one.
func TestRulesFindOffenders(t *testing.T) {
	t.Parallel()
	at := func(rel string) string { return module + "/" + rel }
	tests := []struct {
		name  string
		check rule
		in    listed
	}{
		{"kept dependency", keptDependencies, listed{ImportPath: at("internal/runtime"), Imports: []string{"github.com/redis/go-redis/v9"}}},
		{"kept dependency in a test", keptDependencies, listed{ImportPath: at("internal/runtime"), XTestImports: []string{"github.com/go-chi/chi/v5"}}},
		{"banned through another", bannedDependencies, listed{ImportPath: at("api/durable"), Deps: []string{"github.com/redis/go-redis/v9/internal"}}},
		{"banned import", bannedDependencies, listed{ImportPath: at("internal/runtime"), Imports: []string{"net/http"}}},
		{"arrow up", arrowsRunDown, listed{ImportPath: at("internal/store"), Imports: []string{at("internal/runtime")}}},
		{"arrow to a sibling", arrowsRunDown, listed{ImportPath: at("internal/store/memory"), Imports: []string{at("internal/store/redis")}}},
		{"no floor", arrowsRunDown, listed{ImportPath: at("internal/attic")}},
		{"domain with a library", domainIsLeaf, listed{ImportPath: at("internal/execution"), Imports: []string{"github.com/x/y"}}},
		{"domain with I/O", domainIsLeaf, listed{ImportPath: at("internal/execution"), Imports: []string{"os"}}},
		{"testing ships", shippedKnowNoTests, listed{ImportPath: at("api/durable"), Imports: []string{"testing"}}},
		{"test support ships", shippedKnowNoTests, listed{ImportPath: at("cmd/windrow"), Imports: []string{at("internal/redistest")}}},
		{"a kit ships", shippedKnowNoTests, listed{ImportPath: at("cmd/windrow"), Imports: []string{at("internal/faultkit")}}},
		{"no package comment", documented, listed{ImportPath: at("internal/x")}},
		{"vague name", named, listed{ImportPath: at("internal/util"), Name: "util"}},
		{"vague family", named, listed{ImportPath: at("internal/jsonutil"), Name: "jsonutil"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if problems := test.check(test.in); len(problems) != 1 {
				t.Errorf("problems %q, want one", problems)
			}
		})
	}
}
