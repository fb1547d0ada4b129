package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scanned are the commands that a scanner finds in pieces, as "name first".
func scanned(pieces ...[]byte) (found []string, between bool, err error) {
	s := commandScanner{found: func(name, first string) { found = append(found, name+" "+first) }}
	for _, p := range pieces {
		if err := s.feed(p); err != nil {
			return found, false, err
		}
	}
	return found, s.between(), nil
}

// Commands are found however they are cut up, and whatever stands in their arguments.
func TestCommandsAreFound(t *testing.T) {
	t.Parallel()
	stream := slices.Concat(command("PING"), command("EVALSHA", "0123456789012345678901234567890123456789", "1", "a\r\n*1\r\n$4\r\nPING\r\n"),
		command("set", "", strings.Repeat("x", 70_000)), command("Get", strings.Repeat("k", 100)))
	want := []string{"ping ", "evalsha 0123456789012345678901234567890123456789", "set ", "get " + strings.Repeat("k", longestWord)}
	for _, size := range []int{1, 2, 3, 7, 1000, len(stream)} {
		found, between, err := scanned(slices.Collect(slices.Chunk(stream, size))...)
		if err != nil || !between {
			t.Fatalf("pieces of %d: between commands %t, %v", size, between, err)
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("pieces of %d (-want +got):\n%s", size, diff)
		}
	}
	if found, between, err := scanned(stream[:len(stream)-1]); len(found) != 3 || between || err != nil {
		t.Errorf("all but the last byte: %d commands, between %t, %v", len(found), between, err)
	}
}

// What clients don't send is refused, and not counted as something else.
func TestOtherProtocolsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"PING\r\n", "*x\r\n", "*-1\r\n", "*1\r\n:5\r\n", "*1\r\n$-1\r\n", "\r\n", strings.Repeat("*", 100)} {
		if found, _, err := scanned([]byte(text)); err == nil {
			t.Errorf("%q was read as %q", text, found)
		}
	}
}

// The same is found in one piece and byte by byte, and no more is kept than a word may have.
func FuzzCommandScanner(f *testing.F) {
	f.Add(command("PING"))
	f.Add(slices.Concat(command("XREAD", "BLOCK", "0"), command("EVALSHA", "x")))
	f.Add([]byte("*2\r\n$3\r\nGE"))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, between, err := scanned(data)
		bits, betweenBits, errBits := scanned(slices.Collect(slices.Chunk(data, 1))...)
		if (err == nil) != (errBits == nil) || between != betweenBits || err == nil && !slices.Equal(whole, bits) {
			t.Errorf("whole: %q %t %v; byte by byte: %q %t %v", whole, between, err, bits, betweenBits, errBits)
		}
		for _, c := range whole {
			if len(c) > 2*longestWord+1 || bytes.Count(data, []byte("\n")) == 0 {
				t.Errorf("found %q", c)
			}
		}
	})
}
