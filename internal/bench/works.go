package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/windrow-run/windrow/api/durable"
)

// The kinds of work. Of each there are as many deployments as the server was told: noop, noop-1, noop-2 and so on.
const (
	workNoop        = "noop"        // nothing
	workCheckpoints = "checkpoints" // three checkpoints
	workChunks      = "chunks"      // twenty chunks
	workStandard    = "standard"    // the standard run
	workTicker      = "ticker"      // chunks at an interval, for viewers
	workHeld        = "held"        // one waits for its end, and so does all other behind it
)

// workName is the name of a kind's deployment with that number.
func workName(kind string, n int) string {
	if n == 0 {
		return kind
	}
	return fmt.Sprintf("%s-%d", kind, n)
}

// stamped is an input that says when it was submitted.
type stamped struct {
	At int64 `json:"at,omitempty"` // nanoseconds since the epoch; 0: nobody asks
}

// works are the deployments of a server: n of each kind, but only one of those that take long.
func works(n int, t *tally) ([]durable.Deployment, error) {
	var all []durable.Deployment
	var firstErr error
	add := func(d durable.Deployment, err error) {
		all = append(all, d)
		if firstErr == nil {
			firstErr = err
		}
	}
	for i := range n {
		add(defineStamped(workName(workNoop, i), t, func(durable.Context) error { return nil }))
		add(defineStamped(workName(workCheckpoints, i), t, saveThrice))
		add(defineStamped(workName(workChunks, i), t, streamTwenty))
	}
	add(durable.Define(workStandard, "1", runStandard, nil))
	add(durable.Define(workTicker, "1", tickAway, nil))
	add(durable.Define(workHeld, "1", hold, &durable.Options{Slots: 1}))
	return all, firstErr
}

// bystanders are n deployments that nobody submits to.
func bystanders(n int) ([]durable.Deployment, error) {
	all := make([]durable.Deployment, n)
	for i := range all {
		d, err := durable.Define(workName("bystander", i), "1", func(durable.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
		if err != nil {
			return nil, err
		}
		all[i] = d
	}
	return all, nil
}

func defineStamped(name string, t *tally, do func(durable.Context) error) (durable.Deployment, error) {
	return durable.Define(name, "1", func(c durable.Context, in stamped) (struct{}, error) {
		t.pickedUp(in.At)
		return struct{}{}, do(c)
	}, nil)
}

func saveThrice(c durable.Context) error {
	for i := range 3 {
		if err := durable.Save(c, i); err != nil {
			return err
		}
	}
	return nil
}

func streamTwenty(c durable.Context) error {
	for i := range 20 {
		if err := durable.Stream(c, json.RawMessage(standardChunk(i, false))); err != nil {
			return err
		}
	}
	return nil
}

// Sizes of the standard run, in bytes of JSON.
const (
	standardInput      = 20_000 // of the text alone
	standardChunkSize  = 240
	standardCheckpoint = 30_000
	standardResult     = 5_000

	standardTurns = 6
	turnChunks    = 250
	turnPace      = 40 * time.Second / (standardTurns * turnChunks) // between two chunks
)

// standardIn is the input of the standard run.
type standardIn struct {
	Text   string `json:"text"`
	Turns  int    `json:"turns"`
	Chunks int    `json:"chunks"` // of a turn
	Words  bool   `json:"words"`  // random words in place of repeated letters
}

// runStandard is the standard run: what an agent with a few turns does.
func runStandard(c durable.Context, in standardIn) (json.RawMessage, error) {
	begin := time.Now()
	for turn := range in.Turns {
		if err := durable.Check(c); err != nil {
			return nil, err
		}
		if err := streamTurn(c, begin, turn*in.Chunks, in); err != nil {
			return nil, err
		}
		if turn < standardTurns-1 {
			if err := durable.Check(c); err != nil {
				return nil, err
			}
			if err := durable.Progress(c, fmt.Sprintf("turn %d of %d is over", turn+1, in.Turns)); err != nil {
				return nil, err
			}
		}
		if err := durable.Save(c, jsonText(standardCheckpoint, in.Words)); err != nil {
			return nil, err
		}
	}
	return jsonText(standardResult, in.Words), nil
}

// streamTurn says each chunk, from the number first on, at its time since begin, which no delay moves.
func streamTurn(c durable.Context, begin time.Time, first int, in standardIn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := first; n < first+in.Chunks; n++ {
		timer.Reset(time.Until(begin.Add(time.Duration(n) * turnPace)))
		select {
		case <-timer.C:
		case <-c.Done():
			return c.Err()
		}
		if err := durable.Stream(c, json.RawMessage(standardChunk(n, in.Words))); err != nil {
			return err
		}
	}
	return nil
}

// standardChunk is a JSON object of exactly 240 bytes.
func standardChunk(index int, words bool) []byte {
	head := fmt.Sprintf(`{"index":%d,"token":`, index)
	return append(append([]byte(head), jsonText(standardChunkSize-len(head)-1, words)...), '}')
}

// jsonText is a JSON string of that many bytes, at least two.
func jsonText(size int, words bool) json.RawMessage {
	if !words {
		return fmt.Appendf(nil, `"%s"`, bytes.Repeat([]byte("x"), size-2))
	}
	return fmt.Appendf(nil, `"%s"`, randomWords(size-2))
}

// randomWords is text of words in a random order, out of as many as a text of some length has. It compresses as prose does, and not as
// repeated letters do.
func randomWords(size int) string {
	var out strings.Builder
	for words := vocabulary(); out.Len() < size; {
		out.WriteString(words[rand.IntN(len(words))])
		out.WriteByte(' ')
	}
	return out.String()[:size]
}

// vocabulary is 2,000 words of two to nine letters, always the same.
var vocabulary = sync.OnceValue(func() []string {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 2000)
	for i := range words {
		letters := make([]byte, 2+r.IntN(8))
		for at := range letters {
			letters[at] = byte('a' + r.IntN(26))
		}
		words[i] = string(letters)
	}
	return words
})

func hold(c durable.Context, _ stamped) (struct{}, error) {
	<-c.Done()
	return struct{}{}, c.Err()
}

// tickIn says how a ticker ticks.
type tickIn struct {
	Offset int `json:"offset"` // milliseconds until the first one
	Every  int `json:"every"`  // milliseconds
}

// tick is what a ticker streams.
type tick struct {
	Index int64 `json:"index"`
	At    int64 `json:"at"` // nanoseconds since the epoch
}

// tickAway ticks until it is told to stop.
func tickAway(c durable.Context, in tickIn) (struct{}, error) {
	next := time.NewTimer(time.Duration(in.Offset) * time.Millisecond)
	defer next.Stop()
	for i := int64(0); ; i++ {
		select {
		case <-next.C:
			next.Reset(time.Duration(in.Every) * time.Millisecond)
		case <-c.Done():
			return struct{}{}, c.Err()
		}
		if err := durable.Stream(c, tick{Index: i, At: time.Now().UnixNano()}); err != nil {
			return struct{}{}, err
		}
	}
}
