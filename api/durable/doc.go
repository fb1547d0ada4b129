// Package durable is for the author of a deployment: work that survives crashes, deploys and lost connections.
//
// A deployment is an ordinary Go function with a typed input and a typed result:
//
//	func summarize(c durable.Context, in Document) (Summary, error)
//
// [Define] gives it a name and a revision and derives the JSON Schema of its input, which is enforced before any work is
// accepted.
//
// # Attempts
//
// An execution is run by one attempt after another until one of them ends it: a worker can crash, lose its lease, or shut
// down in the middle, and the next attempt calls the function again from its start. What the function did before is done
// again, unless it was saved: [Save] commits a checkpoint, and [Restore] reads the last one back. A function therefore
// usually begins with Restore and saves after each piece of work that is expensive or must not be repeated. Whatever happens
// between two checkpoints may happen more than once.
//
// # Talking and asking
//
// [Progress] reports small durable events, [Stream] sends output that viewers see as it is made, [Suspend] stops the
// execution until somebody answers, and [Retry] asks for another attempt later. Suspend and Retry return an error that
// the function must return, wrapped or not: it is how the attempt ends.
//
// # Stopping
//
// A [Context] ends when the attempt must stop, and functions of this package then return [ErrCanceled], [ErrLeaseLost] or
// [ErrShutdown]. The function should return soon, with any error; that error is not taken for a failure of the work.
//
// # Errors
//
// An [Error] is shown to clients as it is. Of any other error clients learn only its class, the name of its Go type; its
// text goes to the log.
package durable
