package runtime

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// lines counts what was logged above debug about outages.
func (k *kit) lines() (began, ended int) {
	count := func(pattern string) int { return len(regexp.MustCompile(pattern).FindAllString(k.log.String(), -1)) }
	return count(`level=WARN msg="the store did not answer"`), count(`level=INFO msg="the store answers again"`)
}

// An outage that all loops meet is logged once when it begins and once when the last of them has got over it, and shows in the
// metric for as long.
func TestOutageIsLoggedOnce(t *testing.T) {
	inBubble(t, func(k *kit) {
		m := &tally{seen: map[string]int{}}
		p := k.params(deploy(untilStopped(make(chan error, 1))))
		p.Metrics = m
		k.start(p)
		k.submit()
		k.pass(time.Second)
		streak := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.streak
		}
		for outage := 1; outage <= 2; outage++ {
			k.store.every(lostRequest, "poll", "maintain", "beat")
			k.pass(15 * time.Second)
			for _, loop := range []string{"claimer", "maintainer", "beater"} {
				if !regexp.MustCompile(`level=DEBUG msg="an exchange failed" loop=` + loop).MatchString(k.log.String()) {
					k.Fatalf("the %s met no failure:\n%s", loop, k.log)
				}
			}
			if began, ended := k.lines(); began != outage || ended != outage-1 || streak() < 2 {
				k.Fatalf("in outage %d: %d began, %d ended, streak %d", outage, began, ended, streak())
			}
			k.store.heal()
			k.store.every(lostRequest, "maintain")
			k.pass(15 * time.Second)
			if began, ended := k.lines(); began != outage || ended != outage-1 || streak() < 2 {
				k.Fatalf("while the maintainer fails: %d began, %d ended, streak %d", began, ended, streak())
			}
			k.store.heal()
			k.pass(20 * time.Second)
			if began, ended := k.lines(); began != outage || ended != outage || streak() != 0 {
				k.Fatalf("after outage %d: %d began, %d ended, streak %d", outage, began, ended, streak())
			}
		}
		if !regexp.MustCompile(`answers again" after=\d+(m\d+)?(\.\d+)?s`).MatchString(k.log.String()) {
			k.Fatalf("no duration in:\n%s", k.log)
		}
	})
}

// A change that was not acknowledged is asked for again as the same one: a commit until it is, a client's twice.
func TestUnacknowledged(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			if err := a.Save(ctx, []byte(`1`)); err != nil {
				return handler.Failed{Cause: err}
			}
			return handler.Completed{}
		})))
		k.store.next("checkpoint", unacknowledged, unacknowledged, unacknowledged)
		k.store.next("complete", unacknowledged)
		k.store.next("submit", unacknowledged)
		id := k.submit()
		k.pass(10 * time.Second)
		if c := k.is(id, execution.Completed); c.Attempt != 1 || k.store.count("checkpoint") != 4 || k.store.count("complete") != 2 ||
			k.store.count("submit") != 2 {
			k.Fatalf("%+v after %d checkpoints, %d completions, %d submissions", c, k.store.count("checkpoint"), k.store.count("complete"),
				k.store.count("submit"))
		}

		k.store.next("submit", unacknowledged, unacknowledged)
		_, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`1`)})
		k.code(err, execution.CodeUnconfirmed)
		k.store.next("cancel", unacknowledged, lostRequest)
		_, err = k.rt.Cancel(k.Context(), id, store.Scope{All: true}, "")
		k.code(err, execution.CodeUnconfirmed)
	})
}
