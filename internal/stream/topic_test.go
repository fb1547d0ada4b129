package stream

import (
	"testing"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func someHub(t *testing.T) *Hub {
	t.Helper()
	h, err := New(Params{Store: &meddler{}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Who may come in: a viewer that the topic has not passed, on the same log, while there is more to tell.
func TestAdmit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		topic   trail
		viewer  trail
		refused bool // the viewer was refused before and got no further
		done    bool
		want    admission
	}{
		{"at the same place", trail{epoch: "7", pos: id(2)}, trail{epoch: "7", pos: id(2)}, false, false, admitted},
		{"ahead", trail{epoch: "7", pos: id(2)}, trail{epoch: "7", pos: id(3)}, false, false, admitted},
		{"ahead of a log that the topic does not know", trail{}, trail{epoch: "7", pos: id(3)}, false, false, admitted},
		{"no log for both", trail{}, trail{}, false, false, admitted},
		{"behind", trail{epoch: "7", pos: id(2)}, trail{epoch: "7", pos: id(1)}, false, false, behind},
		{"behind for good", trail{epoch: "7", pos: id(2)}, trail{epoch: "7", pos: id(1)}, true, false, elsewhere},
		{"before the log", trail{epoch: "7", pos: id(2)}, trail{}, false, false, behind},
		{"another log", trail{epoch: "7", pos: id(2)}, trail{epoch: "8", pos: id(3)}, false, false, elsewhere},
		{"all is told", trail{epoch: "7", pos: id(2)}, trail{epoch: "7", pos: id(2)}, false, true, behind},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			topic := newTopic(someHub(t), "x", tt.topic)
			if tt.done {
				topic.interrupt(ReasonErased)
			}
			v := &Viewer{trail: tt.viewer, refused: tt.refused}
			if got := topic.admit(v); got != tt.want {
				t.Errorf("admission %d, want %d", got, tt.want)
			}
			if in := v.topic != nil; in != (tt.want == admitted) {
				t.Errorf("the viewer is in: %v", in)
			}
			if got := topic.stale.Load(); got != (tt.want == elsewhere) {
				t.Errorf("the topic has to be proved: %v", got)
			}
		})
	}
}

// A viewer of a log that the topic learns of only later, by another name, goes back to the past.
func TestAcceptOtherLog(t *testing.T) {
	t.Parallel()
	h := someHub(t)
	topic := newTopic(h, "x", trail{})
	topic.group = newGroup(h, 0)
	v := &Viewer{hub: h, id: "x", trail: trail{epoch: "7", pos: id(3)}}
	if topic.admit(v) != admitted {
		t.Fatal("not admitted")
	}
	topic.prove(read("8", []execution.Entry{chunks(9, 1, 0, 1)}, id(0)))
	if err := v.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v.topic != nil || !v.more || len(v.queue) != 0 {
		t.Errorf("in the topic: %v, reads on: %v, told %v", v.topic != nil, v.more, render(v.queue))
	}
}

// A topic that was not part of a read gets nothing of it, though an earlier one of the same execution was.
func TestDeliverToSuccessor(t *testing.T) {
	t.Parallel()
	h := someHub(t)
	g := newGroup(h, 0)
	topic := newTopic(h, "x", trail{epoch: "7", pos: id(1), attempt: 1})
	topic.group, h.topics["x"], g.reads = g, topic, 1
	found := store.Entries{ID: "x", Entries: []execution.Entry{chunks(9, 1, 0, 1)}}
	g.deliver(found)
	if topic.position().After != id(1) {
		t.Error("it took entries that do not follow its position")
	}
	topic.read = 1
	g.deliver(found)
	if topic.position().After != id(9) {
		t.Error("it did not take entries that follow its position")
	}
}
