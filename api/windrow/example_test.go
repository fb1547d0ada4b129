package windrow_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/windrow"
)

type person struct {
	Name string `json:"name" jsonschema:"minLength=1"`
}

func greet(_ durable.Context, p person) (string, error) { return "Hello, " + p.Name + "!", nil }

// A program of one's own runs a server and hands work in. With a RedisURL in the options the work would outlive the process.
func Example() {
	s, err := windrow.New(windrow.Options{}, durable.MustDefine("greet", "1", greet, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	if err := s.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}
	id, err := s.Submit(ctx, "greet", person{Name: "Ada"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := s.Wait(ctx, id)
	fmt.Println(e.Status, string(e.Result), err)

	_, err = s.Submit(ctx, "greet", person{}, nil)
	fmt.Println(err)

	stop()
	fmt.Println(<-ended)
	// Output:
	// completed "Hello, Ada!" <nil>
	// windrow: the input does not fit its schema (invalid_input)
	//   "/name" must have at least 1 characters, not 0
	// <nil>
}

// A host that listens itself mounts the handler, here beside a page of its own.
func ExampleServer_Handler() {
	s, err := windrow.New(windrow.Options{}, durable.MustDefine("greet", "1", greet, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler())
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	host := httptest.NewServer(mux)
	if err := s.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(host.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := c.Submit(ctx, "greet", person{Name: "Grace"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err = c.Wait(ctx, e.ExecutionID)
	fmt.Println(e.Status, string(e.Result), err)
	stop()
	fmt.Println(<-ended)
	host.Close()
	// Output:
	// completed "Hello, Grace!" <nil>
	// <nil>
}
