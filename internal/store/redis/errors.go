package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// passing reports whether a server refused something for a reason that passes, or that an operator sees to. The word that
// says so begins the error, or stands inside a script's.
func passing(text string) bool {
	for word := range strings.FieldsSeq(text) {
		switch strings.Trim(word, "-:") {
		case "OOM", "LOADING", "NOSCRIPT", "UNBLOCKED", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "NOREPLICAS",
			"MISCONF", "NOAUTH", "WRONGPASS", "NOPERM":
			return true
		}
	}
	return strings.Contains(text, "max number of clients") || strings.Contains(text, "non local key")
}

// translate maps whatever a client call returned to an [execution.Error]. Messages say nothing of what is inside.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*execution.Error](err); known {
		return err
	}
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return unavailable(err)
	}
	text := reply.Error()
	if strings.Contains(text, "WRONGTYPE") {
		return corrupt(err)
	}
	if passing(text) {
		e := unavailable(err)
		if !strings.Contains(text, "OOM") {
			e.Message = "the store refuses work at the moment"
		}
		e.Unchanged = unchanged(text)
		return e
	}
	return &execution.Error{Code: execution.CodeInternal, Message: "the store refused the operation", Err: err}
}

// unchanged reports whether a passing refusal came before the first write of a script. A server that has no room, is read-only
// or can't be written to says so at that write; most others say so instead of running anything. Permissions and slots are
// asked for each command of a script.
func unchanged(text string) bool {
	return !strings.Contains(text, "NOPERM") && !strings.Contains(text, "non local key")
}

// unavailable is an error of CodeUnavailable. What could not even be sent has changed nothing.
func unavailable(err error) *execution.Error {
	message := "the store did not answer"
	switch {
	case errors.Is(err, context.Canceled):
		message = "the request ended before the store answered"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		message = "the store did not answer in time"
	case strings.Contains(err.Error(), "OOM"):
		message = "the store has no room"
	}
	return &execution.Error{Code: execution.CodeUnavailable, Message: message, Err: err, Unchanged: unsent(err)}
}

func unsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || errors.Is(err, goredis.ErrPoolTimeout)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func corrupt(err error) error {
	return &execution.Error{Code: execution.CodeCorrupt, Message: "what is stored can't be read", Err: err}
}

// refused maps the outcome of a script that wrote nothing.
func refused(outcome string) error {
	switch outcome {
	case "missing":
		return execution.Errorf(execution.CodeNotFound, "no such execution")
	case "reused":
		return execution.Errorf(execution.CodeKeyReused, "the idempotency key was used with another body")
	case "malformed", "foreign", "payload", "progress", "range":
		return corrupt(fmt.Errorf("script outcome %q", outcome))
	}
	return &execution.Error{Code: execution.CodeInternal, Message: "the store gave an unknown answer", Err: fmt.Errorf("script outcome %q", outcome)}
}
