// Package strictjson is the door through which every JSON document of a client or an author enters.
//
// A document that passes is strict: one value, UTF-8, no duplicate member names, no lone surrogates, bounded nesting.
// What comes back is the same document without insignificant white space. Every other byte is unchanged: numbers keep
// their spelling (-0, 1e400, 0.1e1), strings their escapes, objects the order of their members. Nothing is decoded and
// written anew, so there is no round trip that could lose anything.
//
// U+0000 is allowed inside a string as the escape \u0000, since it is valid JSON, and comes back as that escape.
// A raw NUL byte is never valid, inside a string or outside.
package strictjson

import (
	"bytes"
	"crypto/sha256"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// DefaultDepth is the nesting that is accepted when [Limits] names none.
	DefaultDepth = 128

	// maxDepth is what the parser itself accepts; a larger limit is lowered to it.
	maxDepth = 10_000
)

// Limits bounds what [Compact] accepts. The size of a document is bounded by whoever reads it.
type Limits struct {
	// Depth is how many objects and arrays may be nested; a scalar has depth 0, [] has depth 1.
	// Zero means [DefaultDepth]; more than 10,000 means 10,000.
	Depth int
}

func (l Limits) depth() int {
	if l.Depth <= 0 {
		return DefaultDepth
	}
	return min(l.Depth, maxDepth)
}

// Compact returns raw without insignificant white space, every other byte unchanged, or an [*Error] that names the rule
// that raw breaks and where. When raw has no insignificant white space the result is raw itself, not a copy.
func Compact(raw []byte, limits Limits) ([]byte, error) {
	shape := scan(raw, limits.depth())
	switch {
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return nil, &Error{Code: CodeByteOrderMark}
	case shape.spaces == len(raw):
		return nil, &Error{Code: CodeEmpty}
	case shape.tooDeep >= 0:
		return nil, &Error{Code: CodeTooDeep, Offset: int64(shape.tooDeep), Pointer: pointerAt(raw, shape.tooDeep)}
	case !jsontext.Value(raw).IsValid():
		return nil, diagnose(raw)
	case shape.spaces == 0:
		return raw, nil
	}
	return strip(make([]byte, 0, len(raw)-shape.spaces), raw), nil
}

// Fingerprint is the SHA-256 of a compacted document. Two documents have the same one only if they differ in nothing but
// insignificant white space: the order of members and the spelling of numbers count.
func Fingerprint(compact []byte) [sha256.Size]byte {
	return sha256.Sum256(compact)
}

// shape is what one pass over the bytes tells, on broken documents too.
type shape struct {
	spaces  int // bytes of insignificant white space
	tooDeep int // offset of the first bracket beyond the depth limit, or -1
}

func scan(raw []byte, depthLimit int) shape {
	s, depth := shape{tooDeep: -1}, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case ' ', '\t', '\n', '\r':
			s.spaces++
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			if depth++; depth > depthLimit {
				s.tooDeep = i
				return s
			}
		case '}', ']':
			depth--
		}
	}
	return s
}

// stringEnd returns the offset of the quote that closes the string opened at start, or the last offset of raw.
func stringEnd(raw []byte, start int) int {
	for i := start + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(raw) - 1
}

// strip appends raw to dst without the white space outside strings. raw is valid JSON.
func strip(dst, raw []byte) []byte {
	kept := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
		case ' ', '\t', '\n', '\r':
			dst = append(dst, raw[kept:i]...)
			kept = i + 1
		}
	}
	return append(dst, raw[kept:]...)
}
