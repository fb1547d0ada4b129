// Command bench-peers runs no-op jobs through Windrow and, in turns with it, through other job queues of the same language:
// hibiken/asynq on the same Redis, and riverqueue/river on PostgreSQL. It is a module of its own, so that what it measures
// against never becomes a dependency.
//
//	go -C scripts/bench-peers run . --help
//
// Each pair of runs is one of the peer and one of Windrow, in the same process, one right after the other, the order swapped
// from pair to pair; a ratio is that of a pair. What else the machine does changes rates, and far less these ratios; CPU
// time is told beside them. Each has the same number of slots and of submitters, and otherwise its own defaults, but that River
// looks for work as often as it can: by default it does once in 100 ms, which would bound it at ten times the slots a second.
// Windrow runs by its embedded API and keeps every execution that has ended; asynq forgets a task at once, and River keeps its
// jobs too.
//
// Two ways are measured: "at once", where jobs are submitted while others run, from the first submission to the last run; and
// "drained", where all are submitted first, from then to the last run.
//
// Servers are started for it on loopback: redis-server without persistence, and PostgreSQL with its own defaults, fsync
// included. Both have to be installed.
package main
