package redis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/windrow-run/windrow/internal/execution"
)

// prose is text of words out of a few thousand.
func prose(n int) string {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", 0x10000+r.IntN(2000)*31)
	}
	return b.String()[:n]
}

func TestCompress(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 255, 256, 1000, 30_000, 1_000_000} {
		data, err := json.Marshal(prose(n))
		if err != nil {
			t.Fatal(err)
		}
		stored := compress(data)
		if small := len(stored) < len(data); small != (len(data) >= compressFrom) {
			t.Errorf("%d bytes are stored as %d", len(data), len(stored))
		}
		if !bytes.Equal(stored, compress(data)) {
			t.Errorf("%d bytes are not stored the same twice, so that a repeat would not be found", len(data))
		}
		if back, err := expand(stored); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%d bytes came back as %d: %v", len(data), len(back), err)
		}
	}
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	if got := compress(noise); !bytes.Equal(got, noise) {
		t.Error("what does not get shorter is stored as it is")
	}
}

// A small value that claims, or turns out, to be very long is refused before it takes memory.
func TestExpandBomb(t *testing.T) {
	long := make([]byte, maxExpanded+1)
	sized, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	var unsized bytes.Buffer
	w, err := zstd.NewWriter(&unsized)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(long); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, bomb := range map[string][]byte{"sized": sized.EncodeAll(long, nil), "unsized": unsized.Bytes(), "nothing": nil,
		"two frames": append(sized.EncodeAll(long[:1<<20], nil), sized.EncodeAll(long[:maxExpanded], nil)...)} {
		if out, err := expand(append([]byte{markZstd}, bomb...)); err == nil {
			t.Errorf("%s: %d bytes became %d", name, len(bomb), len(out))
		}
	}
}

func TestCompressBatch(t *testing.T) {
	t.Parallel()
	b := execution.ChunkBatch{Attempt: 1, First: 4}
	for n := range 4 {
		b.Chunks = append(b.Chunks, fmt.Appendf(nil, `{"index":%d,"token":%q}`, n, prose(200)))
	}
	raw := b.Encode()
	stored := compressBatch(raw)
	if line := bytes.IndexByte(raw, '\n') + 1; !bytes.HasPrefix(stored, raw[:line]) || len(stored) > len(raw)*2/3 {
		t.Errorf("%d bytes are stored as %d", len(raw), len(stored))
	}
	if e := expandEntry(execution.Entry{Kind: execution.EntryChunks, Data: stored}); !bytes.Equal(e.Data, raw) {
		t.Error("the batch came back changed")
	}
	if e := expandEntry(execution.Entry{Kind: execution.EntryProgress, Data: stored}); !bytes.Equal(e.Data, stored) {
		t.Error("what is no batch was changed")
	}
	cut := execution.Entry{Kind: execution.EntryChunks, Data: stored[:len(stored)-5]}
	if _, err := execution.DecodeChunkBatch(expandEntry(cut).Data); err == nil {
		t.Error("a batch that was cut short can be read")
	}
}

// What claims more than it can hold is refused before memory is taken for it, in a further frame too; what holds very much in few
// bytes is not.
func TestExpandClaims(t *testing.T) {
	claim := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0x00, 0x00, 0x00, 0x04, 0x01, 0x00, 0x00} // 64 MiB, then an empty block
	for name, data := range map[string][]byte{
		"alone":         append([]byte{markZstd}, claim...),
		"second":        append(compress([]byte(prose(1000))), claim...),
		"large and few": append([]byte{markZstd}, append(claim, make([]byte, 500)...)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := expand(data)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 32<<20 {
			t.Errorf("%s: %v after %d bytes", name, err, took)
		}
	}
	for _, n := range []int{compressFrom, 1_000_000, maxExpanded} {
		whole := bytes.Repeat([]byte{'x'}, n)
		if out, err := expand(compress(whole)); err != nil || !bytes.Equal(out, whole) {
			t.Errorf("%d bytes came back as %d: %v", n, len(out), err)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(compress([]byte(prose(1000))))
	f.Add([]byte{markZstd, 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := expand(data)
		if err == nil && len(out) > max(maxExpanded, len(data)) {
			t.Errorf("%d bytes became %d", len(data), len(out))
		}
		e := expandEntry(execution.Entry{Kind: execution.EntryChunks, Data: append([]byte("1 0 4\n"), data...)})
		if !bytes.HasPrefix(e.Data, []byte("1 0 4\n")) {
			t.Error("the first line was changed")
		}
	})
}

func BenchmarkCompress(b *testing.B) {
	for _, n := range []int{1000, 30_000} {
		data := []byte(prose(n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				compress(data)
			}
		})
	}
}
