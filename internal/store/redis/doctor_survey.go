package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// subjectKind is what inspect and repair are asked to look at.
type subjectKind string

const (
	executions subjectKind = "x"
	leftovers  subjectKind = "o" // executions of which a key was seen that is not the control
	members    subjectKind = "m"
	bindings   subjectKind = "b"
	otherKeys  subjectKind = "k"
)

// look is one run of inspect or repair.
type look struct {
	partition int
	kind      subjectKind
	index     string // of members
	subjects  []string
}

// survey looks at every key once, at every member of an index once, and repairs what is wrong where that is asked for.
func (d *doctor) survey(ctx context.Context, pass int) error {
	d.begin("keys")
	d.thisPass, d.repaired, d.overdue = map[string]bool{}, false, false
	err := d.scan(ctx, d.store.keys.all(), func(keys []string) error {
		if pass == 0 {
			d.keys += int64(len(keys))
		}
		return d.batch(ctx, keys)
	})
	if err != nil {
		return err
	}
	if d.overdue && d.how.Repair {
		return d.maintain(ctx)
	}
	return nil
}

// maintain does what servers should have done.
func (d *doctor) maintain(ctx context.Context) error {
	for {
		m, err := d.store.Maintain(ctx, 1000)
		if err != nil {
			return err
		}
		did := m.Requeued+m.Failed+m.Canceled+m.Defaulted+m.Removed > 0
		d.repaired = d.repaired || did
		if !m.More || !did {
			return nil
		}
		if err := d.pace(ctx, 1000); err != nil {
			return err
		}
	}
}

// batch looks at keys that a scan returned.
func (d *doctor) batch(ctx context.Context, keys []string) error {
	looks := map[[2]string]*look{}
	var indexes []look
	for _, key := range keys {
		partition, rest, ok := d.store.keys.place(key)
		switch {
		case !ok && key == d.store.keys.namespace():
			continue
		case ok && partition < 0:
			if err := d.unknown(ctx, FoundUnknownPartition, key); err != nil {
				return err
			}
			continue
		}
		kind, subject, known := d.classify(partition, rest)
		if !ok || !known {
			if err := d.unknown(ctx, FoundUnknownKey, key); err != nil {
				return err
			}
			continue
		}
		at := [2]string{string(kind), strconv.Itoa(partition)}
		if looks[at] == nil {
			looks[at] = &look{partition: partition, kind: kind}
		}
		l := looks[at]
		if !slices.Contains(l.subjects, subject) {
			l.subjects = append(l.subjects, subject)
		}
		if kind == otherKeys && indexed(rest) {
			indexes = append(indexes, look{partition: partition, kind: members, index: rest})
		}
	}
	var all []look
	for _, at := range slices.SortedFunc(maps.Keys(looks), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		all = append(all, *looks[at])
	}
	if err := d.examine(ctx, all); err != nil {
		return err
	}
	for _, index := range indexes {
		if err := d.walk(ctx, index); err != nil {
			return err
		}
	}
	return nil
}

// keyTypes are the types of keys that belong to no execution, by their name or by what it begins with up to a colon; those
// marked must have a time to live.
var keyTypes = map[string]struct {
	is     string
	mortal bool
}{
	"ready:": {is: "zset"}, "solitary:": {is: "zset"}, "delayed:": {is: "zset"}, "waiting:": {is: "zset"}, "leases": {is: "zset"}, "running": {is: "zset"}, "waits": {is: "zset"},
	"retention": {is: "zset"}, "malformed": {is: "zset"}, "served": {is: "zset"}, "workers": {is: "zset"}, "capacity": {is: "hash"}, "lease": {is: "string"},
	"all": {is: "zset"}, "of:": {is: "zset"}, "owner:": {is: "zset"}, "label:": {is: "zset"}, "owned:": {is: "zset"}, "status:": {is: "zset"},
	"batch:": {"string", true}, "turn:": {"string", true}, "wake:": {"stream", true}, "tally": {"string", true}, "stamp": {"string", true},
	"ack": {"string", true},
}

// executionKinds are the kinds of keys of one execution, the control first.
var executionKinds = []string{"c", "m", "i", "k", "r", "e", "w", "a", "x", "p", "l", "n", "h"}

// typeName is the name of a key in keyTypes.
func typeName(rest string) string {
	if head, _, ok := strings.Cut(rest, ":"); ok {
		return head + ":"
	}
	return rest
}

// indexed reports whether a key is an index whose members are executions.
func indexed(rest string) bool {
	t, ok := keyTypes[typeName(rest)]
	return ok && t.is == "zset" && rest != "served" && rest != "workers"
}

// classify tells what a key of a partition is about; false where nothing like it is ever written.
func (d *doctor) classify(partition int, rest string) (kind subjectKind, subject string, ok bool) {
	head, tail, _ := strings.Cut(rest, ":")
	switch {
	case slices.Contains(executionKinds, head):
		p, ok := d.store.PartitionOf(tail)
		if head == "c" {
			return executions, tail, ok && p == partition
		}
		return leftovers, tail, ok && p == partition
	case head == "b":
		return bindings, tail, tail != ""
	}
	_, ok = keyTypes[typeName(rest)]
	return otherKeys, rest, ok && len(rest) < maxPackedName
}

// unknown reports a key that is still there at a second look.
func (d *doctor) unknown(ctx context.Context, code, key string) error {
	n, err := d.store.client.Exists(ctx, key).Result()
	if err != nil {
		return translate(err)
	}
	if n > 0 {
		d.add(code, shownKey(key))
	}
	return nil
}

// shownKey is a key as it may be printed.
func shownKey(key string) string {
	text := strings.Trim(strconv.QuoteToASCII(key), `"`)
	if len(text) > 100 {
		text = text[:100] + "..."
	}
	return text
}

// walk looks at the members of an index. One of another type has none; it was judged as a key.
func (d *doctor) walk(ctx context.Context, index look) error {
	name := d.store.keys.anchor(index.partition) + index.index
	for cursor := uint64(0); ; {
		pairs, next, err := d.store.client.ZScan(ctx, name, cursor, "", d.page()).Result()
		if goredis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil
		}
		if err != nil {
			return translate(err)
		}
		index.subjects = nil
		for i := 0; i < len(pairs); i += 2 {
			index.subjects = append(index.subjects, pairs[i])
		}
		if err := d.examine(ctx, []look{index}); err != nil {
			return err
		}
		if err := d.pace(ctx, len(index.subjects)); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// examine looks, looks again at what seems wrong, reports what still is, and repairs it where that is asked for.
func (d *doctor) examine(ctx context.Context, looks []look) error {
	suspects, _, err := d.inspect(ctx, looks)
	if err != nil || len(suspects) == 0 {
		return err
	}
	if err := pause(ctx, secondLook); err != nil {
		return err
	}
	confirmed, codes, err := d.inspect(ctx, suspects)
	if err != nil {
		return err
	}
	var wrong []look
	for i, l := range confirmed {
		mend := false
		for _, subject := range l.subjects {
			for _, code := range codes[i][subject] {
				d.add(code, l.show(subject, code))
				d.overdue = d.overdue || code == FoundLeaseOver
				mend = mend || code != FoundLeaseOver && code != FoundForeign
			}
		}
		if mend {
			wrong = append(wrong, l)
		}
	}
	if !d.how.Repair || len(wrong) == 0 {
		return nil
	}
	return d.repair(ctx, wrong)
}

// show is a subject as it is reported. Nothing that is stored ever is.
func (l look) show(subject, code string) string {
	if l.kind == bindings {
		return hex.EncodeToString([]byte(subject))
	}
	if code == FoundStrayMember {
		return shownKey(subject) + " in " + shownKey(l.index)
	}
	return shownKey(subject)
}

// inspect returns what is wrong with the subjects, as looks at those alone, each with the codes by subject.
func (d *doctor) inspect(ctx context.Context, looks []look) (wrong []look, codes []map[string][]string, err error) {
	var calls []call
	var asked []look
	for _, l := range looks {
		for part := range slices.Chunk(l.subjects, inspectBound) {
			l.subjects = part
			asked = append(asked, l)
			calls = append(calls, call{script: d.store.scripts.inspect, anchor: d.store.keys.anchor(l.partition), args: []any{l.pack(), (2 * d.how.Lease).Milliseconds()}})
		}
	}
	if len(calls) == 0 {
		return nil, nil, nil
	}
	for i, rep := range d.store.exchange(ctx, calls...) {
		if rep.err != nil {
			return nil, nil, rep.err
		}
		found := map[string][]string{}
		l := asked[i]
		l.subjects = nil
		for r := read(rep.value); r.more(); {
			subject, code := r.text(), r.text()
			if r.err != nil {
				return nil, nil, r.fault()
			}
			if found[subject] == nil {
				l.subjects = append(l.subjects, subject)
			}
			found[subject] = append(found[subject], code)
		}
		if len(found) > 0 {
			wrong, codes = append(wrong, l), append(codes, found)
		}
	}
	return wrong, codes, nil
}

// pack is a look as the scripts read it.
func (l look) pack() []byte {
	var p packer
	switch l.kind {
	case members:
		p.array(3).text(string(l.kind)).text(l.index).array(len(l.subjects))
	case otherKeys:
		p.array(2).text(string(l.kind)).array(3 * len(l.subjects))
	case executions, leftovers, bindings:
		p.array(2).text(string(l.kind)).array(len(l.subjects))
	}
	for _, subject := range l.subjects {
		p.text(subject)
		if l.kind == otherKeys {
			t := keyTypes[typeName(subject)]
			p.text(t.is).flag(t.mortal)
		}
	}
	return p.bytes()
}

// repair puts right what is wrong with the subjects.
func (d *doctor) repair(ctx context.Context, wrong []look) error {
	unusable := execution.Failure{Type: "StoredExecutionInvalid", Code: execution.FailureStoredInvalid,
		Message: "What is stored of the execution can't be read."}.Encode()
	budgets := execution.DefaultBudgets()
	calls := make([]call, len(wrong))
	for i, l := range wrong {
		if l.kind == leftovers {
			l.kind = executions
		}
		calls[i] = call{script: d.store.scripts.repair, anchor: d.store.keys.anchor(l.partition),
			args: []any{l.pack(), unusable, budgets.LostLeases, budgets.Retries, budgets.Claims}}
	}
	for _, rep := range d.store.exchange(ctx, calls...) {
		if rep.err != nil {
			return rep.err
		}
		n, ok := rep.value.(int64)
		if !ok {
			return corrupt(fmt.Errorf("reply: %T in place of a number", rep.value))
		}
		d.repaired = d.repaired || n > 0
	}
	return nil
}
