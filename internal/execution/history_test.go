package execution

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// causes are all that there are.
const causes = "sckwadyvlqmMCFGWXYZ"

// Every cause tells its name, where it leads, and who made it; no other letter tells anything.
func TestCauses(t *testing.T) {
	t.Parallel()
	for letter := range 256 {
		c := Cause(letter)
		known := strings.IndexByte(causes, byte(letter)) >= 0
		party := slices.Contains([]Party{PartyClient, PartyWorker, PartySystem}, c.By())
		if known != (c.Name() != "") || known != c.Status().Valid() || known != party {
			t.Errorf("%d: %q, %q, %q", letter, c.Name(), c.Status(), c.By())
		}
	}
}

// What can't be shown is left out of lines, and nothing of a line is lost.
func TestHistoryLines(t *testing.T) {
	t.Parallel()
	const created = 1_700_000_000_000
	for line, want := range map[string]HistoryEntry{
		"c1\t12\tw":             {Cause: CauseClaimed, At: created + 12, Attempt: 1, Actor: "w", Times: 1},
		"k2x7\t0":               {Cause: CauseCheckpointed, At: created, Attempt: 2, Times: 7},
		"F2\t5\t\tboom or so":   {Cause: CauseFailed, At: created + 5, Attempt: 2, Code: "boom or so", Times: 1},
		"X0\t5\tkey:A\tstrange": {Cause: CauseCanceled, At: created + 5, Actor: "key:A", Code: "strange", Times: 1},
	} {
		got, err := ParseHistoryLine(line, created)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", line, err, diff)
		}
		if again := got.Line(created); again != line {
			t.Errorf("%q is written as %q", line, again)
		}
	}
	for _, line := range []string{"", "c1", "\t1", "?1\t1", "c\t1", "c01\t1", "c1\t-1", "c1x1\t1", "c1x\t1", "c1\t1\t", "c1\t1\t\t", "c1\t1\ta\tb\tc",
		"c1\t1\ta\nb", "c1\t9007199254740992"} {
		if e, err := ParseHistoryLine(line, created); err == nil {
			t.Errorf("%q is read as %+v", line, e)
		}
	}
}

func FuzzHistoryLine(f *testing.F) {
	for _, line := range []string{"c1\t12\tw", "k2x7\t0", "F2\t5\t\tboom"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if e, err := ParseHistoryLine(line, 5); err == nil && e.Line(5) != line {
			t.Errorf("%q is read as %+v and written as %q", line, e, e.Line(5))
		}
	})
}

// The oldest go first, and are counted.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var h History
	for i := range int64(MaxHistory + 11) {
		h = h.Add(HistoryEntry{Cause: CauseClaimed, At: i, Attempt: i + 1, Times: 1})
	}
	if len(h.Entries) != MaxHistory || h.Omitted != 11 || h.Entries[0].At != 11 {
		t.Errorf("%d are kept from %+v on, %d are omitted", len(h.Entries), h.Entries[0], h.Omitted)
	}
}
