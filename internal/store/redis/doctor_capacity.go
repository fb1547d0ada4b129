package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// How counters are counted while they move
//
// Every operation changes a counter and what is stored in one script, so what a counter is off by stays the same while work comes
// and goes. It is found so: samples of the counters are taken, then all controls are scanned. A control tells when it was
// created and, for as long as it is kept, when it ended; so it tells whether it held a place at the moment of each sample,
// though it was seen much later. One that was created or ended within the millisecond of a sample tells nothing about that
// sample, which is then left out for its counter: there are several, a few milliseconds apart.
//
// A counter is off by what the usable samples say, where all say the same and the next count says so too. Then that
// difference is taken away, whatever the counter shows by then, so that a right counter, which is off by nothing, is never
// touched, and one that moves is not set to what it was. Left out, and reported as not verified, is what can't be told for
// certain: counters without a usable sample or with samples that differ, also because the clock went back, or because the count
// took so long that work may have ended and been removed meanwhile; and the counters of what this release can't read, or of what was
// created or has ended at a time that has not come yet, since the clock was set back. A token that each count leaves in the
// partition, and each repair takes away, keeps two doctors from both taking the same difference away; whoever erases unfinished work, which then tells nothing any more, has to delete that token too.
//
// One thing moves the difference by itself: a counter at zero that is too low does not fall further. So a counter that was
// raised is counted again, and what it was raised too far is taken away by the next repair.

const (
	sampleCount = 16
	sampleGap   = 2 * time.Millisecond
	tallies     = 6 // counts, at most
	tallyBound  = 50
)

// counter is one of a partition.
type counter struct {
	partition int
	field     string
}

func (c counter) show() string {
	return fmt.Sprintf("%s in partition %d", shownKey(c.field), c.partition)
}

// drift is what a counter is off by.
type drift struct {
	by         int64
	unreadable string // its text, where that is no number
	certain    bool
	unclear    bool // another count would tell no more
}

func (d drift) healthy() bool { return d.certain && d.by == 0 && d.unreadable == "" }

// capacity holds the counters against what is stored.
func (d *doctor) capacity(ctx context.Context) error {
	var open map[counter]drift // not settled yet, by what was counted last; nil: all that will be seen
	for range tallies {
		counts, err := d.tally(ctx)
		if err != nil {
			return err
		}
		for at := range open {
			delete(d.thisPass, mark(FoundCapacity, at.show()))
		}
		next := map[counter]drift{}
		for at, now := range counts.drifts() {
			last, isOpen := open[at]
			if open != nil && !isOpen || now.healthy() {
				continue
			}
			if now.unclear {
				d.unverified = append(d.unverified, at.show())
				continue
			}
			settled, err := d.settle(ctx, counts.token, at, last, now)
			if err != nil {
				return err
			}
			if !settled {
				next[at] = now
			}
		}
		open = next
		if len(next) == 0 {
			break
		}
	}
	for at := range open {
		d.unverified = append(d.unverified, at.show())
	}
	slices.Sort(d.unverified)
	return nil
}

// settle reports a counter that is off by the same as before, and repairs it where that is asked for; it is then counted again.
func (d *doctor) settle(ctx context.Context, token string, at counter, before, now drift) (bool, error) {
	if !now.certain || before != now {
		return false, nil
	}
	d.add(FoundCapacity, at.show())
	if !d.how.Repair {
		return true, nil
	}
	var head packer
	head.array(4).text(token).text(at.field).number(now.by).text(now.unreadable)
	v, err := d.store.run(ctx, d.store.scripts.repairCapacity, at.partition, head.bytes())
	if err != nil {
		return false, err
	}
	if v == int64(1) {
		delete(d.thisPass, mark(FoundCapacity, at.show()))
	}
	return false, nil
}

// tally is one count of all partitions.
type tally struct {
	token string
	parts []*partTally
	seen  map[string]bool // ids: a scan may return a key twice
}

// partTally is the count of a partition.
type partTally struct {
	samples    []sample
	steady     map[string]int64 // what held a place at all samples, by counter
	unclear    map[string]bool  // counters of what can't be read
	unreadable bool             // all are
	blind      bool             // nothing can be told this time
	clock      int64
}

// sample is what the counters said at a time, and what has held a place then, besides what is steady.
type sample struct {
	ms      int64
	says    map[string]string
	held    map[string]int64
	unclear map[string]bool
}

// tally counts.
func (d *doctor) tally(ctx context.Context) (*tally, error) {
	d.begin("counters")
	started := time.Now()
	t := &tally{seen: map[string]bool{}}
	if d.how.Repair {
		t.token = randomText(idRandom)
	}
	for range d.store.config.Partitions {
		t.parts = append(t.parts, &partTally{steady: map[string]int64{}, unclear: map[string]bool{}})
	}
	for range sampleCount {
		if err := d.sample(ctx, t); err != nil {
			return nil, err
		}
		if err := pause(ctx, sampleGap); err != nil {
			return nil, err
		}
	}
	err := d.scan(ctx, d.store.keys.controls(), func(keys []string) error { return d.count(ctx, t, keys) })
	if err != nil {
		return nil, err
	}
	if time.Since(started) > d.store.config.Limits.TerminalTTL/2 {
		for _, p := range t.parts {
			p.blind = true
		}
	}
	return t, nil
}

func (d *doctor) sample(ctx context.Context, t *tally) error {
	calls := make([]call, len(t.parts))
	for p := range calls {
		var head packer
		head.array(3).text(t.token).number(0).array(0)
		calls[p] = call{script: d.store.scripts.inspectCapacity, anchor: d.store.keys.anchor(p), args: []any{head.bytes()}}
	}
	for p, rep := range d.store.exchange(ctx, calls...) {
		if rep.err != nil {
			return rep.err
		}
		r := readPacked(rep.value)
		s := sample{ms: r.number(), says: map[string]string{}, held: map[string]int64{}, unclear: map[string]bool{}}
		for list := r.list(); list.more(); {
			field, value := list.text(), list.text()
			s.says[field] = value
		}
		if r.err != nil {
			return r.fault()
		}
		t.parts[p].tick(s.ms)
		t.parts[p].samples = append(t.parts[p].samples, s)
	}
	return nil
}

// tick notes the server's time. One that goes back makes stamps worthless.
func (p *partTally) tick(ms int64) {
	p.blind = p.blind || ms < p.clock
	p.clock = ms
}

// count adds the executions of keys that a scan returned.
func (d *doctor) count(ctx context.Context, t *tally, keys []string) error {
	ids := make([][]string, len(t.parts))
	for _, key := range keys {
		partition, rest, ok := d.store.keys.place(key)
		if !ok || partition < 0 {
			continue
		}
		if kind, id, ok := d.classify(partition, rest); ok && kind == executions && !t.seen[id] {
			t.seen[id] = true
			ids[partition] = append(ids[partition], id)
		}
	}
	var calls []call
	var parts []*partTally
	for p, all := range ids {
		for part := range slices.Chunk(all, tallyBound) {
			var head packer
			head.array(3).text("").number(t.parts[p].samples[0].ms).array(len(part))
			for _, id := range part {
				head.text(id)
			}
			calls = append(calls, call{script: d.store.scripts.inspectCapacity, anchor: d.store.keys.anchor(p), args: []any{head.bytes()}})
			parts = append(parts, t.parts[p])
		}
	}
	if len(calls) == 0 {
		return nil
	}
	for i, rep := range d.store.exchange(ctx, calls...) {
		if rep.err != nil {
			return rep.err
		}
		if err := parts[i].read(rep.value); err != nil {
			return err
		}
	}
	return nil
}

// read adds what a script tells of some executions.
func (p *partTally) read(v any) error {
	r := readPacked(v)
	p.tick(r.number())
	known := r.list()
	for known.more() {
		deployment, revision := known.text(), known.text()
		created, ended := known.number(), known.number()
		p.hold(deployment, created, ended)
		p.hold(deployment+"@"+revision, created, ended)
	}
	r.failed(known)
	unknown := r.list()
	for unknown.more() {
		deployment, revision := unknown.text(), unknown.text()
		p.unreadable = p.unreadable || deployment == "" || revision == ""
		p.unclear[deployment], p.unclear[deployment+"@"+revision] = true, true
	}
	r.failed(unknown)
	return r.fault()
}

// hold counts a place that was held from when an execution was created to when it ended; 0: it is held.
func (p *partTally) hold(field string, created, ended int64) {
	if created < p.samples[0].ms && ended == 0 {
		p.steady[field]++
		return
	}
	for _, s := range p.samples {
		switch {
		case created == s.ms || ended == s.ms:
			s.unclear[field] = true
		case created < s.ms && (ended == 0 || ended > s.ms):
			s.held[field]++
		}
	}
}

// drifts are what the counters are off by, those that stand and those that should.
func (t *tally) drifts() map[counter]drift {
	out := map[counter]drift{}
	for at, p := range t.parts {
		fields := map[string]bool{}
		for field := range p.steady {
			fields[field] = true
		}
		for _, s := range p.samples {
			for field := range s.says {
				fields[field] = true
			}
			for field := range s.held {
				fields[field] = true
			}
		}
		for field := range fields {
			out[counter{at, field}] = p.drift(field)
		}
	}
	return out
}

// drift compares the usable samples of a counter.
func (p *partTally) drift(field string) drift {
	if p.unreadable || p.unclear[field] {
		return drift{unclear: true}
	}
	if p.blind {
		return drift{}
	}
	var out drift
	for _, s := range p.samples {
		if s.unclear[field] {
			continue
		}
		value, unreadable := parseCounter(s.says[field])
		now := drift{by: value - p.steady[field] - s.held[field], unreadable: unreadable, certain: true}
		if out.certain && out != now {
			return drift{}
		}
		out = now
	}
	return out
}

// parseCounter reads a counter; one that does not stand is zero. What is no number is returned as it is.
func parseCounter(text string) (value int64, unreadable string) {
	if text == "" {
		return 0, ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, text
	}
	return n, ""
}
