package faultkit

import (
	"os"
	"testing"
)

// EnvReliability chooses the form of tests that have two: "short", which is the default, or "long".
const EnvReliability = "WINDROW_RELIABILITY"

// Count is how often a test does something, in the form that was chosen.
func Count(tb testing.TB, short, long int) int {
	tb.Helper()
	switch form := os.Getenv(EnvReliability); form {
	case "", "short":
		return short
	case "long":
		return long
	default:
		tb.Fatalf("%s is %q: it must be short or long", EnvReliability, form)
		return 0
	}
}
