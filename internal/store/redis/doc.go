// Package redis keeps executions in Redis or Valkey. It implements [store.Store] on one server, on Sentinel and on
// Redis Cluster.
//
// # Partitions and keys
//
// Executions are spread over partitions. Every key of an execution, and every index that its scripts touch, carries the
// partition's hash tag and so lies in one slot; an id names its partition. docs/redis-keys.md lists all keys.
//
// # Scripts
//
// Each operation is one Lua script and, in the ordinary case, one exchange. The policy is Go: [execution.Decide] makes a
// plan, which a script carries out after its guard holds. Scripts are mechanism, and keep these rules:
//
//   - All guards come before the first write, since a script that fails does not roll back.
//   - Time is Redis TIME, read once a script.
//   - Payloads are opaque bytes: no script ever parses or renders one.
//   - A script does a bounded amount of work, whatever is stored: at most 100 executions.
//   - Numbers are written as whole decimals; all of them fit a double exactly.
//   - Scripts that must go on at maxmemory make a first write that Redis allows there; submit does not.
//
// # Unknown outcomes
//
// Nothing is sent twice by itself. Where a reply is lost the caller gets CodeUnavailable and repeats the operation with its
// token, and the script answers as the first time. The one exception is NOSCRIPT: it proves that nothing ran, so the
// script's text is sent at once.
package redis
