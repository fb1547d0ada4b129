// Package windrow runs Windrow inside a program of one's own, with one's own deployments.
//
// A program that is nothing but a server takes [Main]: it has the whole command line of windrow, and serves what it is given.
//
//	func main() { windrow.Main(durable.MustDefine("greet", "1", greet, nil)) }
//
// A program that does more makes a [Server] and runs it beside the rest. State is kept in Redis or Valkey, or in memory where
// [Options] names none. The server listens on an address of its own, or leaves that to the host, which mounts [Server.Handler].
//
//	s, err := windrow.New(windrow.Options{RedisURL: url}, greet)
//	...
//	go func() { done <- s.Run(ctx) }()
//	id, err := s.Submit(ctx, "greet", Person{"Ada"}, nil)
//
// Deployments are written with package durable. Processes that share a Redis share the work: each runs the deployments that it
// was given.
package windrow
