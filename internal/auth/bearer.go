package auth

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// Error is why a token was not accepted. Detail is fit for the client.
type Error struct {
	Detail string
	// Unavailable says that the token could not be judged: another try may succeed.
	Unavailable bool
}

func (e *Error) Error() string { return e.Detail }

func invalid(detail string) error { return &Error{Detail: detail} }

// Bearer accepts the bearer tokens of API keys and of an issuer.
type Bearer struct {
	Keys *Keys // nil: none
	JWT  *JWT  // nil: none
}

// Authenticate tells who sends a token. Every error is an [*Error].
func (b *Bearer) Authenticate(ctx context.Context, token string) (Principal, error) {
	switch {
	case strings.HasPrefix(token, keyPrefix) && b.Keys != nil:
		return b.Keys.find(token)
	case b.JWT != nil:
		return b.JWT.principal(ctx, token)
	}
	return Principal{}, invalid("The token is not one that is accepted here.")
}

// Run follows what the tokens are held against until ctx ends.
func (b *Bearer) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	var failed [2]error
	if b.Keys != nil {
		parts.Go(func() { failed[0] = b.Keys.run(ctx) })
	}
	if b.JWT != nil {
		parts.Go(func() { failed[1] = b.JWT.run(ctx) })
	}
	<-ctx.Done()
	parts.Wait()
	return errors.Join(failed[:]...)
}

// Conditions say in a sentence each what is not as it should be.
func (b *Bearer) Conditions() []string {
	var all []string
	if b.Keys != nil {
		all = append(all, b.Keys.condition())
	}
	if b.JWT != nil {
		all = append(all, b.JWT.condition())
	}
	return all
}
