package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// Codes of findings. They are stable.
const (
	FoundRoot             = "namespace_root"
	FoundUnknownPartition = "unknown_partition"
	FoundUnknownKey       = "unknown_key"
	FoundOrphanKeys       = "orphan_keys"
	FoundOrphanBinding    = "orphan_binding"
	FoundMalformed        = "malformed_control"
	FoundForeign          = "foreign_schema"
	FoundMissingIndex     = "missing_index"
	FoundStrayMember      = "stray_member"
	FoundWrongType        = "wrong_type"
	FoundMissingPayload   = "missing_payload"
	FoundMissingTTL       = "missing_ttl"
	FoundLeaseOver        = "lease_over"
	FoundCapacity         = "capacity"
)

// remedies say what to do about a finding, by its code.
var remedies = map[string]string{
	FoundRoot:             "run with --repair and --partitions, the number that the servers are set to",
	FoundUnknownPartition: "keys of a partition that does not exist: look where they come from, and delete them by hand",
	FoundUnknownKey:       "keys that no release up to this one writes: look where they come from, and delete them by hand",
	FoundOrphanKeys:       "--repair removes what is left of executions whose control is gone",
	FoundOrphanBinding:    "--repair frees the idempotency key",
	FoundMalformed:        "--repair ends the execution as failed, or removes it where nothing of it can be read",
	FoundForeign:          "a newer release wrote them: let one serve this namespace",
	FoundMissingIndex:     "--repair puts the execution back where it is found",
	FoundStrayMember:      "--repair takes the id out of the index",
	FoundWrongType:        "--repair removes the key; an unfinished execution that can't go on without it fails",
	FoundMissingPayload:   "--repair ends the execution as failed",
	FoundMissingTTL:       "--repair sets the time to live",
	FoundLeaseOver:        "maintenance does not run: start a server; --repair runs it once",
	FoundCapacity:         "--repair corrects the counter",
}

// Diagnosis says how a namespace is looked at.
type Diagnosis struct {
	Repair bool
	// Rate is how many keys a second are looked at, at most; default 5,000.
	Rate int
	// Partitions that a root is made with which is gone or can't be read; 0: it is not made.
	Partitions int
	// Lease is the longest lease of the servers; default 30 s. One that is over for twice as long is a finding.
	Lease time.Duration
	// Progress, where it is not nil, is told of each step: what is being done, and how many keys and members of indexes were looked at.
	Progress func(step string, keys int64)
}

// Report is what was found.
type Report struct {
	Prefix     string    `json:"prefix"`
	Partitions int       `json:"partitions"`
	Keys       int64     `json:"keys"` // in the first pass
	Findings   []Finding `json:"findings"`
	// Unverified are counters that could not be counted: their deployments were too busy, or have work that can't be read.
	Unverified []string `json:"unverified"`
}

// Finding is one kind of fault.
type Finding struct {
	Code    string   `json:"code"`
	Count   int      `json:"count"`   // found
	Left    int      `json:"left"`    // of them, not repaired
	Samples []string `json:"samples"` // ids, or names of what has none; at most ten
	Remedy  string   `json:"remedy"`
}

// Healthy reports whether nothing is left to see to.
func (r Report) Healthy() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Left > 0 })
}

const (
	samples       = 10
	scanCount     = 100
	secondLook    = 20 * time.Millisecond
	passes        = 4  // of a repair, the last of which should find nothing
	inspectBound  = 25 // executions of one script: each has about thirty keys and members to look at
	defaultRate   = 5000
	defaultLease  = 30 * time.Second
	maxPackedName = 4000
)

// Diagnose checks a namespace, and repairs it where that is asked for, while servers work on it. It makes and opens nothing else;
// c.Partitions does not matter, since the namespace says how many there are. An error means that it could not be checked.
//
// All keys of all masters are scanned, a bounded number at a time. What one script sees is whole, since every operation is one
// script; still, a finding counts only when a second look finds it again. Repairs judge once more in the script that writes.
func Diagnose(ctx context.Context, c Config, how Diagnosis) (Report, error) {
	c.Partitions = 1
	s, err := New(c)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = s.Close() }() // it was only asked
	how.Rate = cmp.Or(how.Rate, defaultRate)
	how.Lease = cmp.Or(how.Lease, defaultLease)
	d := &doctor{store: s, how: how, found: map[string]*Finding{}, seen: map[string]bool{}, thisPass: map[string]bool{}}
	if err := d.diagnose(ctx); err != nil {
		return Report{}, advised(err)
	}
	return d.report(), nil
}

// doctor is one diagnosis under way. One goroutine uses it.
type doctor struct {
	store      *Store
	how        Diagnosis
	step       string
	looked     int64 // keys and members of indexes, in this step
	keys       int64 // in the first pass
	found      map[string]*Finding
	seen       map[string]bool // findings of all passes, by code and subject
	thisPass   map[string]bool // those of this one
	repaired   bool            // in this pass
	overdue    bool            // a lease was found that is long over
	unverified []string
}

func (d *doctor) diagnose(ctx context.Context) error {
	ok, err := d.root(ctx)
	if err != nil || !ok {
		return err
	}
	for pass := range passes {
		if err := d.survey(ctx, pass); err != nil {
			return err
		}
		if !d.how.Repair || !d.repaired {
			break
		}
	}
	return d.capacity(ctx)
}

// root learns the number of partitions, after making the root where that is asked for. false: there is nothing more to see,
// since nobody knows which keys belong to the namespace.
func (d *doctor) root(ctx context.Context) (bool, error) {
	d.begin("root")
	n, err := d.readRoot(ctx)
	if err == nil {
		d.store.keys, d.store.config.Partitions = newKeyspace(d.store.config.Prefix, n), n
		return true, nil
	}
	if !errors.Is(err, errRoot) {
		return false, err
	}
	some, err := d.populated(ctx)
	if err != nil {
		return false, err
	}
	if !some {
		return false, fmt.Errorf("there is no namespace under the key prefix %q: check --redis and --key-prefix", d.store.config.Prefix)
	}
	if !d.how.Repair || d.how.Partitions == 0 {
		d.add(FoundRoot, d.store.keys.namespace())
		return false, nil
	}
	if err := d.makeRoot(ctx); err != nil {
		return false, err
	}
	d.add(FoundRoot, d.store.keys.namespace())
	return true, nil
}

// errRoot says that the root is gone or contradicts itself.
var errRoot = errors.New("the root of the namespace can't be read")

func (d *doctor) readRoot(ctx context.Context) (partitions int, err error) {
	values, err := d.store.client.HMGet(ctx, d.store.keys.namespace(), "schema", "partitions").Result()
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return 0, errRoot
	}
	if err != nil {
		return 0, translate(err)
	}
	schema, _ := strconv.Atoi(fmt.Sprint(values[0])) // zero is refused below
	partitions, _ = strconv.Atoi(fmt.Sprint(values[1]))
	if schema > execution.SchemaVersion {
		return 0, fmt.Errorf("namespace %q is of storage schema %d and this release knows %d: run doctor of a newer release",
			d.store.config.Prefix, schema, execution.SchemaVersion)
	}
	if schema < 1 || partitions < 1 || partitions > maxPartitions {
		return 0, errRoot
	}
	return partitions, nil
}

// populated reports whether there is any key of the namespace, its root included.
func (d *doctor) populated(ctx context.Context) (bool, error) {
	some := false
	err := d.scan(ctx, d.store.keys.all(), func(keys []string) error {
		for _, key := range keys {
			_, _, tagged := d.store.keys.place(key)
			some = some || tagged || key == d.store.keys.namespace()
		}
		return nil
	})
	return some, err
}

// makeRoot makes the root as a server does, where all keys fit its number of partitions.
func (d *doctor) makeRoot(ctx context.Context) error {
	n := d.how.Partitions
	if n < 1 || n > maxPartitions {
		return fmt.Errorf("--partitions: %d is not between 1 and %d", n, maxPartitions)
	}
	d.store.keys, d.store.config.Partitions = newKeyspace(d.store.config.Prefix, n), n
	if err := d.scan(ctx, d.store.keys.all(), d.fitting); err != nil {
		return err
	}
	anchor := d.store.keys.namespace()
	if rep := d.store.exchange(ctx, call{script: d.store.scripts.repairRoot, anchor: anchor, args: []any{maxPartitions}}); rep[0].err != nil {
		return rep[0].err
	}
	return d.store.open(ctx)
}

// fitting refuses keys that no namespace of that many partitions has: some numbers share tags, and then an execution stands
// where its id would not be looked for. A root that says so would make doctor call live executions unknown keys.
func (d *doctor) fitting(keys []string) error {
	for _, key := range keys {
		partition, rest, ok := d.store.keys.place(key)
		kind, id, _ := strings.Cut(rest, ":")
		p, named := partitionOf(id, maxPartitions)
		if !ok || partition >= 0 && (!named || !slices.Contains(executionKinds, kind) || p == partition) {
			continue
		}
		return fmt.Errorf("--partitions: among %d the namespace would not have the key %s where it is: "+
			"name the number that the servers are set to", d.how.Partitions, shownKey(key))
	}
	return nil
}

// nodes are the masters.
func (d *doctor) nodes(ctx context.Context) ([]*goredis.Client, error) {
	many, ok := d.store.client.(*goredis.ClusterClient)
	if !ok {
		node, ok := d.store.client.(*goredis.Client)
		if !ok {
			return nil, fmt.Errorf("client of unknown kind %T", d.store.client)
		}
		return []*goredis.Client{node}, nil
	}
	var mu sync.Mutex
	var nodes []*goredis.Client
	err := many.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return nil, translate(err)
	}
	return nodes, nil
}

// scan walks the keys of all masters that match, paced. It fails where a master was replaced meanwhile: a cursor means nothing
// to another one, and keys would be passed over.
func (d *doctor) scan(ctx context.Context, pattern string, f func(keys []string) error) error {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		run := runID(ctx, node)
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, d.page()).Result()
			if err != nil {
				return translate(err)
			}
			if err := f(keys); err != nil {
				return err
			}
			if err := d.pace(ctx, len(keys)); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		if run != runID(ctx, node) {
			return unavailable(errors.New("a server was restarted or replaced while it was scanned"))
		}
	}
	return nil
}

// runID names a run of a server; "" where this user may not ask.
func runID(ctx context.Context, node *goredis.Client) string {
	text, err := node.Info(ctx, "server").Result()
	if err != nil {
		return ""
	}
	return parseInfo(text)["run_id"]
}

// page is how many keys a scan looks at in one go.
func (d *doctor) page() int64 { return int64(min(scanCount, d.how.Rate)) }

// pace waits for as long as n keys take.
func (d *doctor) pace(ctx context.Context, n int) error {
	d.looked += int64(n)
	if d.how.Progress != nil {
		d.how.Progress(d.step, d.looked)
	}
	return pause(ctx, time.Duration(n)*time.Second/time.Duration(d.how.Rate))
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

func (d *doctor) begin(step string) { d.step, d.looked = step, 0 }

// add counts a finding, once for each subject.
func (d *doctor) add(code, subject string) {
	f := d.found[code]
	if f == nil {
		f = &Finding{Code: code, Samples: []string{}, Remedy: remedies[code]}
		d.found[code] = f
	}
	d.thisPass[mark(code, subject)] = true
	if d.seen[mark(code, subject)] {
		return
	}
	d.seen[mark(code, subject)] = true
	f.Count++
	if len(f.Samples) < samples {
		f.Samples = append(f.Samples, subject)
	}
}

// mark is a finding of one subject. A code has no space.
func mark(code, subject string) string { return code + " " + subject }

func (d *doctor) report() Report {
	r := Report{Prefix: d.store.config.Prefix, Partitions: d.store.config.Partitions, Keys: d.keys, Findings: []Finding{}, Unverified: []string{}}
	for left := range d.thisPass {
		code, _, _ := strings.Cut(left, " ")
		d.found[code].Left++
	}
	for _, f := range d.found {
		slices.Sort(f.Samples)
		r.Findings = append(r.Findings, *f)
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Code, b.Code) })
	r.Unverified = append(r.Unverified, d.unverified...)
	return r
}
