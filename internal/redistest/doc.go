// Package redistest gives tests a real Redis or Valkey server.
//
// # The shared server
//
// All tests of one test process share a server. It is found once, in this
// order, when the first test asks for it:
//
//  1. WINDROW_TEST_REDIS_URL names a running server, which is only ever
//     touched under the prefixes that tests took.
//  2. The server that WINDROW_TEST_REDIS_BINARY names, or else a redis-server
//     or valkey-server on the PATH, is started on a free loopback port, without
//     persistence, in a temporary directory.
//  3. Docker runs WINDROW_TEST_REDIS_IMAGE (redis:7-alpine by default).
//
// WINDROW_TEST_REDIS_FROM forces one of them: url, path or docker. A test for
// which none is there fails and says what to do; it never skips, because a
// suite that silently ran without its store proves nothing.
//
// WINDROW_TEST_REDIS_TOPOLOGY makes it several servers, started from a binary:
// "cluster" is a cluster of three masters, "sentinel" a primary with a replica
// and three Sentinels; "single" is the default. [URL] then has the form that the
// Redis store takes for them, [Client] knows where keys lie, and [Keys] asks all
// masters.
//
// Tests are kept apart by key prefix (see [Prefix]), never by flushing, so all
// of them may run in parallel. A package that uses the shared server hands its
// TestMain to [Main], which stops the server and then looks for goroutines
// left behind.
//
// # Private servers
//
// Fault tests that kill, restart or freeze a server take their own with
// [Private], which always comes from a binary. [Own] is the same in the topology
// of the shared server; [Cluster] and [Replicated] are those topologies
// themselves, with masters that can be killed, frozen and failed over.
//
// # No server outlives its test process
//
// Each server that this package starts has a watchdog: a shell that waits for
// a pipe which only the test process holds open. When that process dies in any
// way, a test timeout and SIGKILL included, the pipe closes and the watchdog
// kills the server and removes its directory.
package redistest
