package redis

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// packer writes MessagePack, which scripts read with cmsgpack: what goes along with payloads, never a payload itself.
// The three kinds of value that are needed are a fraction of any library.
type packer struct{ out []byte }

func (p *packer) array(n int) *packer {
	if p.out == nil {
		p.out = make([]byte, 0, 512) // room for most of what is sent
	}
	switch {
	case n < 16:
		p.out = append(p.out, 0x90|byte(n))
	default:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xdc), uint16(n))
	}
	return p
}

func (p *packer) text(s string) *packer {
	switch n := len(s); {
	case n < 32:
		p.out = append(p.out, 0xa0|byte(n))
	case n <= math.MaxUint8:
		p.out = append(p.out, 0xd9, byte(n))
	case n <= math.MaxUint16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xda), uint16(n))
	default:
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xdb), uint32(n))
	}
	p.out = append(p.out, s...)
	return p
}

func (p *packer) texts(list []string) *packer {
	p.array(len(list))
	for _, s := range list {
		p.text(s)
	}
	return p
}

func (p *packer) number(n int64) *packer {
	switch {
	case n >= 0 && n < 128:
		p.out = append(p.out, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xce), uint32(n))
	default:
		p.out = binary.BigEndian.AppendUint64(append(p.out, 0xd3), uint64(n))
	}
	return p
}

func (p *packer) flag(b bool) *packer {
	if b {
		return p.number(1)
	}
	return p.number(0)
}

func (p *packer) bytes() []byte { return p.out }

// unpack reads one value that a script packed: a string, an int64, or a []any of them.
func unpack(data string) (any, error) {
	u := unpacker{rest: data}
	v, err := u.value(0)
	if err == nil && u.rest != "" {
		err = fmt.Errorf("packed reply: %d bytes too many", len(u.rest))
	}
	return v, err
}

type unpacker struct {
	rest string
	err  error // the first one of text
}

// begin reads the head of an array: the number of values that follow.
func (u *unpacker) begin() (int, error) {
	head, err := u.uint(1)
	switch {
	case err != nil:
		return 0, err
	case head&0xf0 == 0x90:
		return int(head & 0x0f), nil
	case head == 0xdc || head == 0xdd:
		n, err := u.uint(2 << (head - 0xdc))
		return int(n), err
	}
	return 0, fmt.Errorf("packed reply: no array")
}

// text reads a text, or a number as text. After an error it is empty.
func (u *unpacker) text() string {
	if u.err != nil || u.rest == "" {
		u.fail(fmt.Errorf("packed reply: cut short"))
		return ""
	}
	if head := u.rest[0]; head&0xe0 == 0xa0 || head >= 0xd9 && head <= 0xdb {
		size := int(head & 0x1f)
		u.rest = u.rest[1:]
		if head >= 0xd9 {
			n, err := u.uint(1 << (head - 0xd9))
			u.fail(err)
			size = int(n)
		}
		s, err := u.take(size)
		u.fail(err)
		return s
	}
	v, err := u.value(0)
	n, ok := v.(int64)
	if err == nil && !ok {
		err = fmt.Errorf("packed reply: %T in place of text", v)
	}
	u.fail(err)
	return strconv.FormatInt(n, 10)
}

func (u *unpacker) fail(err error) {
	if u.err == nil {
		u.err = err
	}
}

// take cuts n bytes off.
func (u *unpacker) take(n int) (string, error) {
	if n < 0 || n > len(u.rest) {
		return "", fmt.Errorf("packed reply: cut short")
	}
	s := u.rest[:n]
	u.rest = u.rest[n:]
	return s, nil
}

// uint reads a big-endian number of n bytes.
func (u *unpacker) uint(n int) (uint64, error) {
	s, err := u.take(n)
	var v uint64
	for i := range len(s) {
		v = v<<8 | uint64(s[i])
	}
	return v, err
}

func (u *unpacker) value(depth int) (any, error) {
	head, err := u.uint(1)
	if err != nil {
		return nil, err
	}
	switch {
	case head < 0x80:
		return int64(head), nil
	case head == 0x80: // cmsgpack's other way to write an empty table
		return []any{}, nil
	case head >= 0xe0:
		return int64(int8(head)), nil
	case head&0xe0 == 0xa0:
		return u.take(int(head & 0x1f))
	case head&0xf0 == 0x90:
		return u.array(int(head&0x0f), depth)
	}
	return u.long(head, depth)
}

// long reads a value whose size or magnitude follows its head.
func (u *unpacker) long(head uint64, depth int) (any, error) {
	switch head {
	case 0xcc, 0xcd, 0xce, 0xcf:
		n, err := u.uint(1 << (head - 0xcc))
		return int64(n), err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (head - 0xd0)
		n, err := u.uint(size)
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, err
	case 0xd9, 0xda, 0xdb:
		n, err := u.uint(1 << (head - 0xd9))
		if err != nil {
			return nil, err
		}
		return u.take(int(n))
	case 0xdc, 0xdd:
		n, err := u.uint(2 << (head - 0xdc))
		if err != nil {
			return nil, err
		}
		return u.array(int(n), depth)
	}
	return nil, fmt.Errorf("packed reply: unexpected type %#x", head)
}

func (u *unpacker) array(n, depth int) (any, error) {
	if n > len(u.rest) || depth > 8 {
		return nil, fmt.Errorf("packed reply: malformed array")
	}
	out := make([]any, n)
	for i := range out {
		v, err := u.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}
