package storetest

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func doorbellTests() []test {
	return []test{
		{name: "listening begins with a ring for all", run: bellFirst},
		{name: "work that falls due where nothing was due rings", run: bellDue},
		{name: "work behind due work is quiet", run: bellQuiet},
		{name: "delayed work rings where it is the next to fall due", run: bellDelayed},
		{name: "retry, release, resume, recovery and expiry ring", run: bellReturns},
		{name: "every listener hears it", run: bellAll},
	}
}

// bell listens in the background.
type bell struct {
	*kit
	rings chan store.Revision
}

func (k *kit) listen() *bell {
	k.Helper()
	b := &bell{k, make(chan store.Revision, 100)}
	ctx, cancel := context.WithCancel(k.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Store.Listen(ctx, func(r store.Revision) { b.rings <- r }) // how it ends is no matter of the bell's
	}()
	k.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			k.Error("Listen did not end with its context")
		}
	})
	b.next(store.Revision{})
	return b
}

func (b *bell) next(want store.Revision) {
	b.Helper()
	select {
	case got := <-b.rings:
		b.same("ring", want, got)
	case <-time.After(patience):
		b.Fatalf("no ring for %v", want)
	}
}

// rang asserts that the kit's revision rang once and nothing else did: a marker that rings for sure comes right after.
func (b *bell) rang() {
	b.Helper()
	b.next(b.rev)
	b.quiet()
}

// quiet asserts that nothing rang since.
func (b *bell) quiet() {
	b.Helper()
	s := b.submission()
	s.Deployment, s.Revision = "marker", b.token()
	b.admit(s)
	b.next(store.Revision{Deployment: s.Deployment, Revision: s.Revision})
}

func bellFirst(k *kit) {
	k.listen().quiet()
}

func bellDue(k *kit) {
	b := k.listen()
	k.submit()
	b.rang()
	k.claim()
	k.submit()
	b.rang()
}

func bellQuiet(k *kit) {
	k.submit()
	b := k.listen()
	k.submit()
	b.quiet()
	s := k.submission()
	s.Delay = time.Minute
	k.admit(s)
	b.quiet()
	k.rev.Revision = "r2"
	k.submit()
	b.rang()
}

func bellDelayed(k *kit) {
	b := k.listen()
	delayed := func(d time.Duration) {
		s := k.submission()
		s.Delay = d
		k.admit(s)
	}
	delayed(time.Hour)
	b.rang()
	delayed(2 * time.Hour)
	b.quiet()
	delayed(time.Minute)
	b.rang()
	k.submit()
	b.rang()
}

func bellReturns(k *kit) {
	c := k.start()
	b := k.listen()
	k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Minute, Error: broken})
	b.rang()
	k.Advance(time.Minute)
	c = k.claim().Control
	k.do(c, execution.Release{Owned: k.owned(c)})
	b.rang()
	c = k.suspend(k.claim().Control, 0, execution.Wait{})
	k.resume(c, "1")
	b.rang()
	k.claim()
	k.Advance(lease)
	k.maintain()
	b.rang()
	k.suspend(k.claim().Control, time.Minute, execution.Wait{Default: []byte("1")})
	k.Advance(time.Minute)
	k.maintain()
	b.rang()
	c = k.claim().Control
	k.do(c, complete(k, c))
	b.quiet()
}

func bellAll(k *kit) {
	one, two := k.listen(), k.listen()
	k.submit()
	one.next(k.rev)
	two.next(k.rev)
}
