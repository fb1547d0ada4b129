// Package client talks to a Windrow server over HTTP: submit work, look at it, follow it, answer it, cancel it.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	e, err := c.Submit(ctx, "story", map[string]int{"chunks": 300}, &client.SubmitOptions{Key: "order-17"})
//	for event, err := range c.Stream(ctx, e.ExecutionID, nil) {
//		...
//	}
//
// Every call takes a context and ends with it. A refusal by the server is a [*Problem]. Failed requests are repeated only
// where that can't do anything twice: reads, cancellations, and submissions and answers that carry an idempotency key. A
// stream reconnects from where it broke off, for as long as its context lives.
package client
