// Package runtime runs executions: it claims due work, calls its handlers, keeps leases alive, carries what handlers report
// to the store, and takes back what other processes lost. It knows no HTTP and no particular store.
//
// # Parts
//
//	Submit, Resume, Cancel ──▶ store ◀── maintainer (overdue leases and waits)
//	          │ wake             ▲ ▲ ▲
//	          ▼            poll  │ │ │ beat: renewals and chunks of all sessions
//	listener ─▶ registry ─▶ claimer │ beater
//	doorbell    slots, sessions    │   ▲
//	                  └─▶ session ─┘   │ chunks, renewals
//	                      one an attempt; calls the handler
//
// One claimer, one listener, one maintainer and one beater serve all deployments of the process, so that an idle process
// costs the same with one deployment or a hundred. Each is one file with one step that tests call directly, and each is
// restarted by its supervisor when it panics.
//
// # The lease window
//
// A session may work only while it can be sure that nobody else does. The store measures a lease from the moment at which
// it commits the claim; the session measures it from just before the request was sent, which is earlier, and ends it a
// commit margin sooner. So the local window always closes first. It moves only with a confirmed renewal, again to the time
// before that renewal was sent. When it closes, the handler's context ends with [handler.ErrLeaseLost] and nothing that the
// handler still does reaches the store (invariant 3).
//
// # Work on its last chance
//
// What lost a lease and would fail with the next one runs alone in its process, so that it never fails for its neighbours; see
// solitary.go for the rules.
//
// # Unknown outcomes
//
// An exchange that fails with CodeUnavailable may have been applied, and one that fails with CodeUnconfirmed was, and may not
// last. Every operation that matters is then repeated as the
// same one, until it is settled or the lease window has closed: a transition with its operation token, a poll with its claim
// token, a chunk batch with its number, a submission with its id (invariant 11).
//
// # Shutdown
//
// The order, and why:
//
//  1. Quiesce: submissions are refused and the claimer, listener and maintainer end. First, so that nothing new arrives
//     behind the ones that follow. A poll that was under way is settled, and what it claimed is released unrun.
//  2. Grace: attempts may finish by themselves; one that saves a checkpoint is handed over there, since little is lost.
//  3. Their contexts end with [handler.ErrShutdown]. A handler that returns has its claim released, at no cost to a budget.
//  4. The beater ends last: a session needs it for its last chunks and, while its handler does not stop, for its lease.
package runtime
