// Package faultkit makes things go wrong in tests, on purpose and by a seed.
//
//   - [Proxy] stands between a client and its Redis and knows its protocol: it cuts a connection before a command, after it, or
//     in the middle of its reply, and delivers a command late.
//   - [Network] is a proxy that knows nothing of what it carries: latency, bandwidth, silence, resets.
//   - [Redis] does to a server what operators, and accidents, do to one.
//   - [Clock] steps the clock of a server while it runs.
//   - [Harass] kills, freezes and restarts a process.
//
// [Count] says how often: a test has a short form, which every run takes, and a long one.
package faultkit
