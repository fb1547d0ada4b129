package redis

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/windrow-run/windrow/internal/execution"
)

// Compressed values begin with a byte that no JSON begins with. It says how the rest is compressed, so that readers know both
// what is compressed and what is not, whatever the setting is now. Of a batch of chunks only the chunks are compressed: scripts
// read its first line.
const (
	markZstd = 0x01
	// compressFrom is from how many bytes on it is tried.
	compressFrom = 256
	// maxExpanded bounds what a stored value may expand to. Longer ones are not compressed, and a stored value that claims to
	// be longer is corrupt: what somebody puts into Redis must not exhaust a server's memory.
	maxExpanded = 64 << 20
	// A block of Zstandard expands to at most maxBlock bytes, and takes minBlock itself.
	maxBlock, minBlock = 128 << 10, 4
)

// codec is shared by all stores of a process. Its halves are safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

var theCodec = sync.OnceValues(func() (codec, error) {
	// The default level takes text for incompressible too soon.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(1<<20),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		return codec{}, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxExpanded), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	return codec{e, d}, err
})

// compress returns the value as it is to be stored: as it is, where that is no longer.
func compress(data []byte) []byte {
	c, err := theCodec()
	if err != nil || len(data) < compressFrom || len(data) > maxExpanded {
		return data
	}
	out := c.encoder.EncodeAll(data, append(make([]byte, 0, len(data)/2), markZstd))
	if len(out) >= len(data) {
		return data
	}
	return out
}

// expand returns a stored value as it was.
func expand(data []byte) ([]byte, error) {
	if len(data) == 0 || data[0] != markZstd {
		return data, nil
	}
	c, err := theCodec()
	if err != nil {
		return nil, err
	}
	var h zstd.Header
	if err := h.Decode(data[1:]); err != nil {
		return nil, fmt.Errorf("compressed value: %w", err)
	}
	if !h.HasFCS || h.FrameContentSize > maxExpanded {
		return nil, fmt.Errorf("compressed value: it does not say its length, or says %d bytes, of at most %d", h.FrameContentSize, maxExpanded)
	}
	// The length is allocated before anything is decoded: a few bytes must not claim what they can't hold.
	if h.FrameContentSize > uint64(len(data)/minBlock*maxBlock) {
		return nil, fmt.Errorf("compressed value: %d bytes can't hold the %d that they claim", len(data), h.FrameContentSize)
	}
	out, err := c.decoder.DecodeAll(data[1:], make([]byte, 0, h.FrameContentSize))
	if err != nil {
		return nil, fmt.Errorf("compressed value: %w", err)
	}
	return out, nil
}

// compressBatch compresses the chunks of an encoded batch.
func compressBatch(batch []byte) []byte {
	line := bytes.IndexByte(batch, '\n') + 1
	body := compress(batch[line:])
	if len(body) == len(batch)-line {
		return batch
	}
	return append(batch[:line:line], body...)
}

// expandEntry gives a batch of chunks its chunks back. What can't be expanded stays as it is, and is garbled to whoever
// decodes it.
func expandEntry(e execution.Entry) execution.Entry {
	line := bytes.IndexByte(e.Data, '\n') + 1
	if e.Kind != execution.EntryChunks || line == 0 || line == len(e.Data) || e.Data[line] != markZstd {
		return e
	}
	if body, err := expand(e.Data[line:]); err == nil {
		e.Data = append(e.Data[:line:line], body...)
	}
	return e
}

// compressible are the payloads that are worth it, and that no script puts anywhere else.
func compressible(k execution.PayloadKind) bool {
	switch k {
	case execution.PayloadInput, execution.PayloadCheckpoint, execution.PayloadResult, execution.PayloadAnswer:
		return true
	}
	return false
}
