// Package e2e holds the tests that start the real binary: they kill it, stop it, run two of it, and look at it only
// through HTTP and Redis.
package e2e
