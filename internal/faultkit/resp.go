package faultkit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// readCommand reads one command as clients send them: an array of bulk strings. raw is all of its bytes.
func readCommand(r *bufio.Reader) (raw []byte, args [][]byte, err error) {
	raw, n, err := header(r, '*')
	if err != nil {
		return nil, nil, err
	}
	for range n {
		head, size, err := header(r, '$')
		if err != nil {
			return nil, nil, err
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, nil, err
		}
		raw = append(append(raw, head...), body...)
		args = append(args, body[:size])
	}
	return raw, args, nil
}

// header reads a line that says how much follows.
func header(r *bufio.Reader, kind byte) (line []byte, n int, err error) {
	if line, err = r.ReadBytes('\n'); err != nil {
		return nil, 0, err
	}
	if line[0] != kind {
		return nil, 0, fmt.Errorf("%q where a %q belongs", line[0], kind)
	}
	n, err = strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	return line, n, err
}

// readReply reads one reply of the second version of the protocol, which is the one that the store speaks.
func readReply(r *bufio.Reader) ([]byte, error) {
	raw, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if raw[0] != '$' && raw[0] != '*' {
		return raw, nil
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(raw[1:])))
	if err != nil {
		return nil, err
	}
	if raw[0] == '$' {
		body := make([]byte, max(n, -2)+2)
		if n < 0 {
			body = nil
		}
		_, err = io.ReadFull(r, body)
		return append(raw, body...), err
	}
	for range n {
		part, err := readReply(r)
		if err != nil {
			return nil, err
		}
		raw = append(raw, part...)
	}
	return raw, nil
}
