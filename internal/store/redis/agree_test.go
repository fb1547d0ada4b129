package redis_test

import (
	"strings"
	"testing"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
)

// lives are executions in every status that a control can have, each by the id of one.
func (k *kit) lives() map[execution.Status]string {
	k.Helper()
	canceled := k.submit()
	_, err := k.store.Cancel(k.Context(), canceled, store.Scope{All: true}, "")
	k.ok(err)
	failed := k.start()
	k.do(failed, execution.Fail{Owned: k.owned(failed), Error: execution.Failure{Code: "broken"}})
	return map[execution.Status]string{
		execution.Canceled:  canceled,
		execution.Failed:    failed.ID,
		execution.Completed: k.complete(k.start()).ID,
		execution.Waiting:   k.suspend(k.start()).ID,
		execution.Running:   k.start().ID,
		execution.Queued:    k.submit(),
	}
}

// Scripts and the domain agree on which controls are malformed: one that only the client refused would fail the whole reply
// that it stands in, and with it its neighbours.
func TestScriptsAgreeOnControls(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	client := redistest.Client(t)
	fields := strings.Fields("d r o s v f a l n c bl bn bc i j jq tp ts w k e t x q h p y g m b u nonsense")
	for status, id := range k.lives() {
		stored := client.HGetAll(t.Context(), k.key("c:"+id)).Val()
		for _, field := range fields {
			for _, value := range []string{"", "0", "1", "5", "007", "-1", "q", "x", "9007199254740991", "9007199254740992"} {
				k.field(id, field, value)
				k.agree(status, id, field+"="+value)
			}
			k.ok(client.HDel(t.Context(), k.key("c:"+id), field).Err())
			k.agree(status, id, "no "+field)
			if old, ok := stored[field]; ok {
				k.field(id, field, old)
			}
		}
		k.agree(status, id, "as it was")
	}
}

// agree reads a control through a script and holds what it says of it against the domain.
func (k *kit) agree(status execution.Status, id, change string) {
	k.Helper()
	var pairs []execution.Pair
	for f, v := range redistest.Client(k).HGetAll(k.Context(), k.key("c:"+id)).Val() {
		if f != "%" { // the store's own: the history
			pairs = append(pairs, execution.Pair{Field: execution.Field(f), Value: v})
		}
	}
	_, want := execution.ParseRecord(id, pairs)
	_, err := k.store.Read(k.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}})
	if told := err != nil && strings.Contains(err.Error(), `"malformed"`); told != (want != nil) || err != nil && !told {
		k.Errorf("%s, %s: the script says %v, the domain %v", status, change, err, want)
	}
}

// One control that contradicts itself stalls neither a poll nor a pass of maintenance.
func TestContradictionsStallNobody(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	queued, good := k.submit(), k.submit()
	k.field(queued, "h", "5") // the deadline of a wait that is not open
	p := k.poll(2)
	if p.Malformed != 1 || len(p.Claimed) != 1 || p.Claimed[0].Control.ID != good {
		t.Fatalf("polled %+v", p)
	}
	running := k.start()
	k.field(running.ID, "h", "5")
	clock.advance(lease)
	m, err := k.store.Maintain(t.Context(), 10)
	k.ok(err)
	if m != (store.Maintained{Requeued: 1, Malformed: 1}) {
		t.Errorf("maintained %+v", m)
	}
}

// An execution whose long values are gone is malformed: without its owner's name it would look like one that has none.
func TestLostOwner(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	sub := k.submission()
	sub.Owner = strings.Repeat("o", 100)
	_, err := k.store.Submit(t.Context(), sub)
	k.ok(err)
	k.ok(redistest.Client(t).Del(t.Context(), k.key("m:"+sub.ID)).Err())
	_, err = k.store.Read(t.Context(), store.ReadRequest{ID: sub.ID, Scope: store.Scope{Owner: ""}})
	k.refused(err, execution.CodeCorrupt)
}
