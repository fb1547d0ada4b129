package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/durabletest"
)

type greetInput struct {
	Name string `json:"name" jsonschema:"minLength=1"`
}

type greetResult struct {
	Greeting string `json:"greeting"`
}

// A deployment is a function with a name and a revision. The schema of its input comes from the Go type.
func ExampleDefine() {
	greet := func(_ durable.Context, in greetInput) (greetResult, error) {
		return greetResult{Greeting: "Hello, " + in.Name + "!"}, nil
	}
	d, err := durable.Define("greet", "1", greet, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = durabletest.Submit(d, json.RawMessage(`{"nam":"Ada"}`))
	fmt.Println("refused:", err != nil)

	e, err := durabletest.Submit(d, greetInput{Name: "Ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Run(context.Background()), string(e.Result()))
	// Output:
	// refused: true
	// completed {"greeting":"Hello, Ada!"}
}

// A function that saves after each page goes on with the next page after a crash, and not from the start.
func ExampleSave() {
	crash := func() {} // set below
	read := func(c durable.Context, pages int) (int, error) {
		var next int
		if _, err := durable.Restore(c, &next); err != nil {
			return 0, err
		}
		for ; next < pages; next++ {
			if next == 2 && c.Attempt() == 1 {
				crash()
			}
			if err := durable.Check(c); err != nil {
				return 0, err
			}
			fmt.Printf("attempt %d reads page %d\n", c.Attempt(), next+1)
			if err := durable.Save(c, next+1); err != nil {
				return 0, err
			}
		}
		return next, nil
	}
	e, err := durabletest.Submit(durable.MustDefine("read", "1", read, nil), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	crash = e.Crash
	fmt.Println(e.Run(context.Background()), string(e.Result()))
	// Output:
	// attempt 1 reads page 1
	// attempt 1 reads page 2
	// attempt 2 reads page 3
	// completed 3
}

type decision struct {
	Approved bool   `json:"approved"`
	Note     string `json:"note,omitempty"`
}

// An execution that needs a person's answer takes no slot and no process while it waits.
func ExampleSuspend() {
	publish := func(c durable.Context, _ struct{}) (string, error) {
		answer, answered, err := durable.Answer[decision](c)
		switch {
		case err != nil:
			return "", err
		case !answered:
			return "", durable.Suspend[decision](c, nil, durable.Wait{
				Message: "Publish?", Timeout: 24 * time.Hour, Default: decision{Note: "nobody answered"}})
		case !answer.Approved:
			return "left in the drawer: " + answer.Note, nil
		}
		return "published", nil
	}
	e, err := durabletest.Submit(durable.MustDefine("publish", "1", publish, nil), struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Run(context.Background()), e.Question())
	fmt.Println("wrong answer refused:", e.Resume("yes") != nil)
	if err := e.Resume(decision{Approved: true}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(e.Run(context.Background()), string(e.Result()))
	// Output:
	// waiting Publish?
	// wrong answer refused: true
	// completed "published"
}

// Clients see an Error as it is. Of any other error they see the class only.
func ExampleRetry() {
	call := func(c durable.Context, _ struct{}) (string, error) {
		if c.Retries() < 2 {
			return "", durable.Retry(c, durable.Backoff, errors.New("connection to 10.0.0.7 refused"))
		}
		return "done", nil
	}
	e, err := durabletest.Submit(durable.MustDefine("call", "1", call, nil), struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Attempt(context.Background()), e.Failure().Type)
	fmt.Println(e.Run(context.Background()), e.Attempts())
	// Output:
	// queued errors.errorString
	// completed 3
}

// What is streamed reaches viewers at once; what is reported is kept.
func ExampleStream() {
	count := func(c durable.Context, to int) (int, error) {
		for i := range to {
			if err := durable.Stream(c, map[string]int{"n": i + 1}); err != nil {
				return 0, err
			}
		}
		return to, durable.Report(c, durable.Event{Kind: "counted", Message: "All counted."})
	}
	e, err := durabletest.Submit(durable.MustDefine("count", "1", count, nil), 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	e.Run(context.Background())
	for _, chunk := range e.Chunks() {
		fmt.Println(string(chunk))
	}
	for _, event := range e.Progress() {
		fmt.Println(event.Kind, event.Message)
	}
	// Output:
	// {"n":1}
	// {"n":2}
	// counted All counted.
}

// A public error tells clients what they may know; its cause goes to the log.
func ExampleError() {
	pay := func(durable.Context, struct{}) (string, error) {
		cause := errors.New("card 4711 declined")
		return "", durable.Error{Type: "PaymentDeclined", Code: "declined", Message: "The card was declined.", Err: cause}
	}
	e, err := durabletest.Submit(durable.MustDefine("pay", "1", pay, nil), struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Run(context.Background()))
	fmt.Println(e.Failure().Type, e.Failure().Code, e.Failure().Message)
	// Output:
	// failed
	// PaymentDeclined declined The card was declined.
}
