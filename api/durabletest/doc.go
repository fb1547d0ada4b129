// Package durabletest runs a deployment in memory, without a server, for the tests of its author.
//
//	e, err := durabletest.Submit(summarize, Document{Text: "..."})
//	e.Run(ctx)           // until it ends or waits
//	e.Resume(Approved{}) // if it waits
//	e.Run(ctx)
//	fmt.Println(e.Status(), string(e.Result()))
//
// The lifecycle is the one of the real runtime: schemas are enforced, and budgets of retries count. Time is not: delays of
// retries pass at once, a wait expires when [Execution.Expire] is called, and a worker dies when [Execution.Crash] is. A
// shutdown is an attempt whose context ends.
package durabletest
