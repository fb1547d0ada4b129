package redistest

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// HasTLS tells whether private servers were built with TLS. It starts one that
// has a port for TLS and no certificate, which no server accepts: the reason
// that it ends with says which.
func HasTLS(t testing.TB) bool {
	t.Helper()
	binary, err := shared.around.binary()
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	said, err := exec.CommandContext(ctx, binary, "--port", "0", "--tls-port", strconv.Itoa(port),
		"--dir", t.TempDir()).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%s serves TLS without a certificate: %v", binary, err)
	}
	for _, without := range []string{"Failed finding TLS support", "Bad directive"} {
		if strings.Contains(string(said), without) {
			return false
		}
	}
	return true
}
