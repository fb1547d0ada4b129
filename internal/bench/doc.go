// Package bench measures what windrow costs, and holds it against its budgets: exchanges with Redis, commands, bytes, memory,
// times. [Names] lists the benchmarks; each one is a function from [Params] to a [Report].
//
// # Counts and times
//
// Counts (exchanges, commands, bytes) come out the same on any machine, up to how the clock falls, and have budgets that fail a run.
// Times depend on the machine and on what else it does. They are compared within one run only: as a ratio, taken in turns.
//
// # Processes
//
// What is measured runs as it does in production: servers in processes of their own, which are this program again, told by their
// standard input what to do (see [Child]). The process that measures starts them, stands between them and Redis with a proxy that counts,
// and is client and viewer.
package bench
