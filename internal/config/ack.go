package config

import (
	"errors"
	"strconv"
	"strings"
)

// Ack is what a change waits for before it is answered: "primary" for nothing beyond the server that carries it out,
// "replicas=N", or "fsync".
type Ack struct {
	Replicas int
	Fsync    bool
}

const (
	ackForm     = "primary, replicas=N or fsync"
	maxReplicas = 100
)

// String is the form that Set reads.
func (a *Ack) String() string {
	switch {
	case a.Fsync:
		return "fsync"
	case a.Replicas > 0:
		return "replicas=" + strconv.Itoa(a.Replicas)
	}
	return "primary"
}

// Set reads one of the forms.
func (a *Ack) Set(text string) error {
	number, replicas := strings.CutPrefix(text, "replicas=")
	n, err := strconv.Atoi(number)
	switch {
	case text == "primary":
		*a = Ack{}
	case text == "fsync":
		*a = Ack{Fsync: true}
	case replicas && err == nil && n >= 1 && n <= maxReplicas:
		*a = Ack{Replicas: n}
	default:
		return errors.New("want " + ackForm)
	}
	return nil
}

// Type is what help calls it.
func (a *Ack) Type() string { return "ack" }
