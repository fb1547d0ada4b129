package runtime

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spreads repeats of failed exchanges.
type backoff struct{ min, max time.Duration }

// delay before the next try after that many failed ones in a row: uniform between min and min doubled with each further
// failure, at most max.
func (b backoff) delay(failures int) time.Duration {
	top := doubled(b.min, failures-1, b.max)
	return b.min + rand.N(top-b.min+1)
}

// fullJitter is the delay of an application retry: uniform between 0 and first doubled that many times, at most longest.
func fullJitter(first, longest time.Duration, doublings int64) time.Duration {
	return rand.N(doubled(first, int(min(doublings, 64)), longest) + 1)
}

func doubled(d time.Duration, times int, most time.Duration) time.Duration {
	for range times {
		if d >= most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}

// sleep waits for d and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
