package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// Limits bound what one owner may ask of one process. What an owner has stored is for the store to bound, with the submission.
type Limits struct {
	Rate    int // requests a second; 0: no limit
	Burst   int // requests at once
	Viewers int // streams at once; 0: no limit
}

// Headers of draft-ietf-httpapi-ratelimit-headers, in Go's spelling.
const (
	rateHeader       = "Ratelimit"
	ratePolicyHeader = "Ratelimit-Policy"
)

// maxAccounts bounds how many buckets are kept. Who is forgotten begins with a full one.
const maxAccounts = 10_000

// rateLimit has a bucket of requests for each account.
type rateLimit struct {
	Limits
	mu      sync.Mutex // makes one bucket an account
	buckets *lru.Cache[auth.Account, *rate.Limiter]
}

func newRateLimit(l Limits) *rateLimit {
	buckets, err := lru.New[auth.Account, *rate.Limiter](maxAccounts)
	if err != nil { // the size is positive
		panic(err)
	}
	return &rateLimit{Limits: l, buckets: buckets}
}

// take takes so many requests out of the account's bucket, and says in the answer's header what is left.
func (l *rateLimit) take(header http.Header, account auth.Account, requests int) *problem.Problem {
	if l.Rate == 0 {
		return nil
	}
	now := time.Now()
	bucket := l.bucket(account)
	taken := bucket.AllowN(now, requests)
	left := max(bucket.TokensAt(now), 0)
	header.Set(ratePolicyHeader, fmt.Sprintf(`"requests";q=%d;w=%d`, l.Burst, l.seconds(float64(l.Burst))))
	header.Set(rateHeader, fmt.Sprintf(`"requests";r=%d;t=%d`, int(left), l.seconds(float64(l.Burst)-left)))
	if taken {
		return nil
	}
	return problem.New(contract.ProblemCodeRateLimited, "At most %d requests may be made at once, and %d a second.", l.Burst, l.Rate).
		WithLimit(int64(l.Burst)).WithRetryAfter(l.seconds(float64(requests) - left))
}

// tellOwned says in the answer's header that an owner has as much unfinished work as they may.
func tellOwned(header http.Header, most int64) {
	for name, one := range map[string]string{rateHeader: `"unfinished";r=0`, ratePolicyHeader: fmt.Sprintf(`"unfinished";q=%d`, most)} {
		if requests := header.Get(name); requests != "" {
			one = requests + ", " + one
		}
		header.Set(name, one)
	}
}

// seconds is how long so many requests take to come back, at least 1.
func (l *rateLimit) seconds(requests float64) int {
	return max(1, int(math.Ceil(requests/float64(l.Rate))))
}

func (l *rateLimit) bucket(account auth.Account) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets.Get(account)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(l.Rate), l.Burst)
		l.buckets.Add(account, bucket)
	}
	return bucket
}

// viewerLimit counts the streams that each account follows.
type viewerLimit struct {
	most int // 0: no limit
	mu   sync.Mutex
	open map[auth.Account]int // those that follow some
}

// enter counts a stream; where there is room, leave must be called once it has ended.
func (l *viewerLimit) enter(account auth.Account) *problem.Problem {
	if l.most == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[account] >= l.most {
		return problem.New(contract.ProblemCodeTooManyViewers, "At most %d streams may be followed at once.", l.most).
			WithLimit(int64(l.most)).WithRetryAfter(viewerRetry)
	}
	l.open[account]++
	return nil
}

// viewerRetry is the seconds after which another try makes sense: until then a viewer that broke off may have been noticed.
const viewerRetry = 15

func (l *viewerLimit) leave(account auth.Account) {
	if l.most == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[account]--; l.open[account] == 0 {
		delete(l.open, account)
	}
}
