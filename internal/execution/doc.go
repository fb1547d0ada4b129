// Package execution is the domain: what an execution is, which commands move it, and what each command does to it.
//
// # Lifecycle
//
//	             ┌────────────── retry, release, recover ──────────────┐
//	             ▼                                                     │
//	submit → queued ── claim ──▶ running ── complete ──▶ completed     │
//	             │                 │  │ └──── fail ────▶ failed        │
//	             │                 │  └───────────────────────────────-┘
//	             │                 └─ suspend ─▶ waiting ── resume ──▶ queued
//	             └──────── cancel ─────────────────┴──────▶ canceled
//
// Completed, failed and canceled are terminal and final.
//
// # Policy and mechanism
//
// [Decide] is the only place where the lifecycle is decided. It is a pure function of a control, a command and a time:
// no I/O, no clock, no randomness. Its answer, a [Plan], says what changes in terms that any store can carry out under
// its own clock: a field is set, counted up, cleared, or stamped with "now plus so much". A store checks the plan's
// [Guard] against what it holds, then applies the plan as a whole; guards come before the first write.
//
// A plan is made from the control that the caller holds, which may be old. The guard therefore names the version that
// the plan was made from, and a store that holds another one answers with its own control, from which the caller decides
// again. Where a command must be carried out without reading first (claim, cancel), what Decide answers depends on the
// [Phase] alone, so that a store can take one plan a phase along.
//
// The package imports the standard library only, and everything may import it.
package execution
