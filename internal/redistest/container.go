package redistest

import (
	"context"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	tcredis "github.com/testcontainers/testcontainers-go/modules/redis"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	// dockerTimeout bounds the question whether a Docker daemon is there.
	dockerTimeout = 10 * time.Second
	// containerTimeout bounds the start of a container, the pull of its image included.
	containerTimeout = 3 * time.Minute
)

// quiet drops what testcontainers would print into the output of every test run.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// dockerAnswers returns nil when a Docker daemon answers. The library panics
// where it finds none of its configuration, which here is only another "no".
func dockerAnswers() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), dockerTimeout)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(quiet{}))
	if err != nil {
		return err
	}
	defer func() { _ = provider.Close() }() // it only asked
	return provider.Health(ctx)
}

// runContainer starts image and returns the server's URL and the function
// that removes the container. Only the mapped port and the log are waited for:
// images built from scratch have no shell to look from inside.
func runContainer(image string) (url string, stop func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), containerTimeout)
	defer cancel()
	container, err := tcredis.Run(ctx, image,
		testcontainers.WithLogger(quiet{}),
		testcontainers.WithCmdArgs("--save", "", "--appendonly", "no", "--protected-mode", "no"),
		testcontainers.WithWaitStrategyAndDeadline(containerTimeout,
			wait.ForMappedPort("6379/tcp"), wait.ForLog("Ready to accept connections")),
	)
	stop = func() error { return testcontainers.TerminateContainer(container) }
	if err != nil {
		return "", nil, fmt.Errorf("run %s in Docker: %w", image, withCleanup(err, stop))
	}
	url, err = container.ConnectionString(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("address of the container: %w", withCleanup(err, stop))
	}
	return url, stop, nil
}

// withCleanup runs stop after a failed start and adds its failure, if any, to err.
func withCleanup(err error, stop func() error) error {
	if cleanup := stop(); cleanup != nil {
		return fmt.Errorf("%w (and its removal: %w)", err, cleanup)
	}
	return err
}
