// Package server assembles a Windrow server from its parts and starts and ends it. The command line, embedders and tests of
// the whole system all start the same [App].
//
// # Shutdown
//
// The order, and why:
//
//  1. The runtime is quiesced: readiness turns to 503, submissions are refused, nothing is claimed any more. First, so that a
//     proxy stops sending requests and no work arrives behind the steps that follow.
//  2. The runtime is closed: running attempts end or are handed over. Reads and streams still work, so that viewers see
//     what the attempts say last, and clients can look things up.
//  3. The hub is closed: every viewer is told to reconnect, elsewhere by then, and goes on by its cursor. Only now, since a
//     stream would otherwise keep the next step waiting for ever.
//  4. HTTP drains: no new connections, those without a request are closed, and open requests get their answers; after the
//     drain timeout they are cut.
//  5. The runtime has ended, with the last of its claims. An attempt that does not stop is waited for, as long as the host
//     allows: its lease is still renewed, and to leave it would cost it a lost lease.
//  6. The store is closed, last, since everything above uses it.
package server
