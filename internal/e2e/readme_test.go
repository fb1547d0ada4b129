package e2e

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

const (
	readmeAddr  = "127.0.0.1:8080"
	readmeRedis = "redis://127.0.0.1:6379/0"
	blockMark   = "@@@ block "
)

// fenced returns the blocks of README.md in that language, in order.
func fenced(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// readmeBlock is what is known of a block of the shell.
type readmeBlock struct {
	begins string   // with which it begins
	prints []string // patterns, in the order in which they must show; nil: the block is not for the script
	redis  bool     // it needs Redis
}

// readmeBlocks are the blocks of README.md, in order. The script runs all that print.
func readmeBlocks() []readmeBlock {
	return []readmeBlock{
		{begins: "go run ./cmd/windrow dev\n"},
		{begins: "url=", prints: []string{`"deployment":"story"`, `"status":"(queued|running)"`}},
		{begins: "curl -sN $url/executions/$id/stream", prints: []string{`id: \S+`, `event: chunk\ndata: .*"attempt":1,`,
			`event: progress\n`, `event: completed\ndata: .*"result":\{"chunks":60,"paragraphs":10\}`}},
		{begins: "id=$(curl -s $url/deployments/approval", prints: []string{`"status":"waiting"`, `"message":"Ship it\?"`,
			`"code":"invalid_input"`, `"pointer":"/input/approved"`, `\n422\n`, `"deployment":"approval"`, `\n202\n`,
			`event: completed\ndata: .*"result":\{"question":"Ship it\?","approved":true,"note":"go"\}`}},
		{begins: "for n in 1 1 2; do", prints: []string{`"execution_id":"(\w+)".*\n202\n`, `"execution_id":"(\w+)".*\n202\n`,
			`"code":"key_reused".*\n422\n`}},
		{begins: "id=$(curl -s $url/deployments/story", prints: []string{`"deployment":"story"`, `\n20[02]\n`, `event: canceled\ndata: .*"status":"canceled"`}},
		{begins: "go run ./cmd/windrow dev --redis " + readmeRedis + "\n"},
		{begins: "go build -o windrow", redis: true, prints: []string{`event: chunk\ndata: .*"attempt":1,`, `event: chunk\ndata: .*"attempt":2,`,
			`event: completed\ndata: .*"attempt":2,.*"result":\{"chunks":300,`}},
		{begins: "./scripts/test\n"},
	}
}

// readmeScript puts the blocks together that can be run, and checks that it knows each one.
func readmeScript(t *testing.T, withRedis bool) (script string, run []readmeBlock) {
	t.Helper()
	known, blocks := readmeBlocks(), fenced(t, "sh")
	if len(blocks) != len(known) {
		t.Fatalf("README.md has %d blocks of the shell, this test knows %d", len(blocks), len(known))
	}
	var all strings.Builder
	all.WriteString("set -eu\n")
	for i, block := range blocks {
		k := known[i]
		switch {
		case !strings.HasPrefix(block, k.begins):
			t.Fatalf("block %d of README.md does not begin with %q:\n%s", i, k.begins, block)
		case k.prints == nil, k.redis && !withRedis:
			continue
		}
		run = append(run, k)
		all.WriteString("echo '" + blockMark + "'\n" + block)
	}
	return all.String(), run
}

// shell runs a script in a directory of its own, with the binary as ./windrow, and returns what it prints.
func shell(t *testing.T, script string, env ...string) string {
	t.Helper()
	for _, tool := range []string{"sh", "curl", "sed", "grep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the lines of README.md need %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(dir, "windrow")); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 2*time.Minute)
	sh := exec.CommandContext(ctx, "sh", "-c", script)
	sh.Dir, sh.Env = dir, append(os.Environ(), env...)
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the servers that the script starts end with it
	sh.Cancel = func() error { return syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) }
	var out, said strings.Builder
	sh.Stdout, sh.Stderr = &out, &said
	err := sh.Run()
	_ = syscall.Kill(-sh.Process.Pid, syscall.SIGTERM) // none are left where the script went well
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "windrow.log")) // there may be none
		t.Fatalf("the lines of README.md: %v\n%s\n%s\n%s", err, &said, &out, log)
	}
	return out.String()
}

// checkReadme holds what the blocks printed against what is known of them.
func checkReadme(t *testing.T, out string, run []readmeBlock) {
	t.Helper()
	printed := strings.Split(out, blockMark+"\n")[1:]
	if len(printed) != len(run) {
		t.Fatalf("%d of %d blocks were run:\n%s", len(printed), len(run), out)
	}
	for i, text := range printed {
		rest := text
		for _, pattern := range run[i].prints {
			at := regexp.MustCompile(pattern).FindStringIndex(rest)
			if at == nil {
				t.Errorf("the block %q does not print %s (in this place):\n%s", run[i].begins, pattern, text)
				break
			}
			rest = rest[at[1]:]
		}
		ids := regexp.MustCompile(`"execution_id":"(\w+)"`).FindAllStringSubmatch(text, -1)
		for _, id := range ids {
			if id[1] != ids[0][1] { // each block is about one execution, the one of the same key included
				t.Errorf("the block %q prints the executions %s and %s", run[i].begins, ids[0][1], id[1])
			}
		}
		if n := strings.Count(text, "\nevent: completed\n") + strings.Count(text, "\nevent: canceled\n"); n > 1 {
			t.Errorf("the block %q prints %d terminal events", run[i].begins, n)
		}
	}
}

// The lines of README.md do what it says, in order, in a POSIX shell: in memory.
func TestReadmeInMemory(t *testing.T) {
	t.Parallel()
	s := start(t, "dev", "--addr", "127.0.0.1:0")
	script, run := readmeScript(t, false)
	script = strings.ReplaceAll(script, "http://"+readmeAddr, s.URL)
	checkReadme(t, shell(t, script), run)
}

// The lines of README.md do what it says with Redis, the kill -9 included.
func TestReadmeOnRedis(t *testing.T) {
	t.Parallel()
	redis, prefix, addr := redistest.URL(t), redistest.Prefix(t), freeAddr(t)
	first := start(t, "dev", "--redis", redis, "--key-prefix", prefix, "--addr", "127.0.0.1:0")
	script, run := readmeScript(t, true)
	before, killing, ok := strings.Cut(script, "go build -o windrow ./cmd/windrow\n") // the binary is there
	if !ok {
		t.Fatal("README.md kills no server")
	}
	killing = strings.ReplaceAll(strings.ReplaceAll(killing, "$url", "http://"+addr+"/v1"), "http://"+readmeAddr, "http://"+addr)
	script = strings.ReplaceAll(before, "http://"+readmeAddr, first.URL) + strings.ReplaceAll(killing, readmeRedis, redis)
	// The second part has a prefix of its own, since it is about what its own two servers do.
	checkReadme(t, shell(t, script, "WINDROW_ADDR="+addr, "WINDROW_KEY_PREFIX="+redistest.Prefix(t)), run)
}

// freeAddr is an address that was free a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The program in README.md compiles, and serves its deployment.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	blocks := fenced(t, "go")
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d programs", len(blocks))
	}
	dir := t.TempDir()
	source, overlay, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "greeter")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "cmd", "greeter", "main.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{source: []byte(blocks[0]), overlay: replaced} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, "./cmd/greeter")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := freeAddr(t)
	out := shell(t, program+` dev >windrow.log 2>&1 &
until curl -sf http://`+addr+`/readyz >ready; do sleep 1; done
`+program+` submit greet '{"name": "Ada"}' --watch
`+program+` submit greet '{"nam": "Ada"}' || echo "exit $?"
kill $!
`, "WINDROW_ADDR="+addr, "WINDROW_SERVER=http://"+addr)
	if out != "\"Hello, Ada!\"\nexit 1\n" {
		t.Errorf("%q", out)
	}
}
