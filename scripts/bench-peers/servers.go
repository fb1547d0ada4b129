package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
)

const startLimit = 30 * time.Second // for a server to answer

// process is a server that was started here. It is ended by its own id.
type process struct {
	command *exec.Cmd
	dir     string // removed with it
	said    bytes.Buffer
}

func (p *process) start() error {
	p.command.Dir, p.command.Stdout, p.command.Stderr = p.dir, &p.said, &p.said
	return p.command.Start()
}

func (p *process) stop() {
	if p.command != nil && p.command.Process != nil {
		_ = p.command.Process.Signal(syscall.SIGINT)
		_ = p.command.Wait() // it was told to end
	}
	_ = os.RemoveAll(p.dir)
}

// answers waits until ask succeeds.
func answers(ctx context.Context, name string, p *process, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			p.stop()
			return fmt.Errorf("%s does not answer: %w\n%s", name, err, p.said.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePort is a port on loopback that nobody listens on now.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

type redisServer struct {
	process

	addr   string
	client *goredis.Client
}

func startRedis(ctx context.Context) (*redisServer, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server on the PATH: apt-get install redis-server")
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	r := &redisServer{addr: "127.0.0.1:" + strconv.Itoa(port)}
	r.dir = dir
	//nolint:noctx // it is told to end, so that nothing is left behind
	r.command = exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", dir)
	if err := r.start(); err != nil {
		return nil, err
	}
	r.client = goredis.NewClient(&goredis.Options{Addr: r.addr})
	return r, answers(ctx, "redis-server", &r.process, func(ctx context.Context) error { return r.client.Ping(ctx).Err() })
}

func (r *redisServer) empty(ctx context.Context) error { return r.client.FlushAll(ctx).Err() }

// cpu is the time that the server has used so far.
func (r *redisServer) cpu(ctx context.Context) (time.Duration, error) {
	info, err := r.client.Info(ctx, "cpu").Result()
	var total float64
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second)), err
}

type postgresServer struct {
	process

	url string
}

const noPostgres = `there is no initdb and postgres: apt-get install postgresql, or name the folder of its programs with --postgres;
without it --peers=asynq measures against asynq alone`

// postgresPrograms finds initdb and postgres.
func postgresPrograms(dir string) (initdb, postgres string, err error) {
	dirs := []string{dir}
	if dir == "" {
		dirs = filepath.SplitList(os.Getenv("PATH"))
		debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
		dirs = append(dirs, debian...)
	}
	for _, d := range dirs {
		initdb, postgres = filepath.Join(d, "initdb"), filepath.Join(d, "postgres")
		if _, err := exec.LookPath(initdb); err != nil {
			continue
		}
		if _, err := exec.LookPath(postgres); err == nil {
			return initdb, postgres, nil
		}
	}
	return "", "", errors.New(noPostgres)
}

// other is whose rights PostgreSQL gets where this process has those of root, with which it refuses to run.
func other(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // nothing to change
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return attr, os.Chown(dir, uid, gid)
}

func startPostgres(ctx context.Context, programs string) (_ *postgresServer, err error) {
	initdb, postgres, err := postgresPrograms(programs)
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p := &postgresServer{url: fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port)}
	if p.dir, err = os.MkdirTemp("", "bench-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	attr, err := other(p.dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(p.dir, "data")
	made := exec.CommandContext(ctx, initdb, "-D", data, "-U", "bench", "--auth=trust", "-E", "UTF8", "--no-locale")
	made.SysProcAttr, made.Dir = attr, p.dir
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	//nolint:noctx // it is told to end, so that it leaves nothing behind
	p.command = exec.Command(postgres, "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", p.dir)
	p.command.SysProcAttr = attr
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, answers(ctx, "postgres", &p.process, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
}

// cpu is the time that the server has used so far, with its backends: those that have ended count in its children.
func (p *postgresServer) cpu() (time.Duration, error) {
	total := time.Duration(0)
	pids := []string{strconv.Itoa(p.command.Process.Pid)}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]s/task/%[1]s/children", pids[0]))
	if err != nil {
		return 0, err
	}
	for i, pid := range append(pids, strings.Fields(string(children))...) {
		ticks, err := cpuTicks(pid, i == 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		total += time.Duration(ticks) * (time.Second / 100) // USER_HZ is 100 on every Linux that Go runs on
	}
	return total, nil
}

// cpuTicks reads the time of a process, and of its children that have ended, from /proc.
func cpuTicks(pid string, withEnded bool) (int64, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(data, []byte(") ")) // the name may hold spaces; field 3 follows
	s := bufio.NewScanner(bytes.NewReader(after))
	s.Split(bufio.ScanWords)
	var sum int64
	for field := 3; s.Scan() && field <= 17; field++ {
		if field == 14 || field == 15 || withEnded && field >= 16 {
			n, err := strconv.ParseInt(s.Text(), 10, 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
