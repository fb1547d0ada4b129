package faultkit

import (
	"math/rand/v2"
	"slices"
)

// Point is where an exchange is broken.
type Point int

// The points.
const (
	Pass   Point = iota // nowhere
	Before              // the connection is cut before the server has seen the command
	After               // the server has run the command; the connection is cut in place of its reply
	Within              // the connection is cut in the middle of the reply
	Hold                // the server sees the command, and what follows it on its connection, only when [Proxy.Deliver] is called
)

// Command is a command on its way to the server.
type Command struct {
	Name string // of the script where the proxy knows it, else of the command, in capitals
	Args [][]byte
}

// Plan decides where each command is broken. It is called for one command at a time.
type Plan func(Command) Point

// Nth breaks one command: the n-th, from 0, of those that bear one of the names; without names, of all.
func Nth(n int, point Point, names ...string) Plan {
	return func(c Command) Point {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			return Pass
		}
		n--
		if n == -1 {
			return point
		}
		return Pass
	}
}

// Rate breaks each command that bears one of the names, or any without names, with that probability, at one of the points.
func Rate(seed uint64, probability float64, points []Point, names ...string) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(c Command) Point {
		if len(names) > 0 && !slices.Contains(names, c.Name) || random.Float64() >= probability {
			return Pass
		}
		return points[random.IntN(len(points))]
	}
}

// Cuts are the points at which a connection is cut.
func Cuts() []Point { return []Point{Before, After, Within} }
