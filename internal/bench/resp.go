package bench

import (
	"bytes"
	"fmt"
	"strconv"
)

const (
	longestHeader = 32 // bytes of a line that says how much follows
	longestWord   = 64 // bytes kept of a command's first words: the digest of a script has 40
)

// commandScanner finds the commands in what a client sends, in whatever pieces it comes. It keeps no more of a command than its
// first two words.
type commandScanner struct {
	found func(name, first string) // is told of each complete command: its name, and its first argument or ""

	header []byte // of a line that has not ended
	left   int    // arguments that are still to come, the one under way included
	body   int    // bytes of the argument under way that are still to come, its line end included
	words  [2][]byte
	word   int // the number of the argument under way
}

// between reports whether no command is under way.
func (s *commandScanner) between() bool { return s.left == 0 && len(s.header) == 0 }

// feed takes the next piece. An error says that this is not what clients send; there is no going on after it.
func (s *commandScanner) feed(piece []byte) error {
	for len(piece) > 0 {
		if s.body > 0 {
			piece = s.argument(piece)
			continue
		}
		line, rest, whole := bytes.Cut(piece, []byte("\n"))
		if len(s.header)+len(line) > longestHeader {
			return fmt.Errorf("a header has more than %d bytes", longestHeader)
		}
		s.header = append(s.header, line...)
		if !whole {
			return nil
		}
		if err := s.count(bytes.TrimSuffix(s.header, []byte("\r"))); err != nil {
			return err
		}
		s.header, piece = s.header[:0], rest
	}
	return nil
}

// argument takes what the piece has of the argument under way, and returns the rest.
func (s *commandScanner) argument(piece []byte) []byte {
	n := min(s.body, len(piece))
	if s.word < len(s.words) {
		text := piece[:min(n, max(0, s.body-len("\r\n")))]
		word := &s.words[s.word]
		*word = append(*word, text[:min(len(text), longestWord-len(*word))]...)
	}
	s.body -= n
	if s.body > 0 {
		return nil
	}
	s.word++
	if s.left--; s.left == 0 {
		s.found(string(bytes.ToLower(s.words[0])), string(s.words[1]))
	}
	return piece[n:]
}

// count reads the header of a command or of an argument.
func (s *commandScanner) count(header []byte) error {
	kind := byte('*')
	if s.left > 0 {
		kind = '$'
	}
	if len(header) < 2 || header[0] != kind {
		return fmt.Errorf("%q where a %q belongs", header, kind)
	}
	n, err := strconv.ParseUint(string(header[1:]), 10, 31)
	if err != nil {
		return err
	}
	if kind == '$' {
		s.body = int(n) + len("\r\n")
		return nil
	}
	s.left, s.word = int(n), 0
	s.words[0], s.words[1] = s.words[0][:0], s.words[1][:0]
	return nil
}

// command is what a client sends.
func command(words ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
	}
	return out
}
