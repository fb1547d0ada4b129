// Package hayhooks has the words of hayhooks 2.x: how its routes name executions, show them, refuse requests and stream events.
// It carries nothing out; the operations are in the package above, over the same runtime and hub as all others.
//
// What hayhooks leaves open is as on the other routes: which media types and how much of a body are read, the strictness of JSON,
// that a key has no control characters, that an answer may come with an idempotency key, and the statuses 408, 429 and 431.
// docs/hayhooks.md lists what differs from hayhooks, and why.
package hayhooks
