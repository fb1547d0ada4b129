package memory

import (
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/windrow-run/windrow/internal/store"
)

const (
	digits   = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // as math/big counts
	idBytes  = 16                                                               // 128 random bits
	idDigits = 22                                                               // as many of base 62 hold them
)

// NewID makes an id: one digit for the partition, then 128 random bits. There is one partition, so the key has no say.
func (s *Store) NewID(store.Key) string {
	b := make([]byte, idBytes)
	if _, err := io.ReadFull(s.rand, b); err != nil {
		panic(fmt.Sprintf("memory: no random bits for an id: %v", err)) // crypto/rand never fails
	}
	text := new(big.Int).SetBytes(b).Text(62)
	return digits[:1] + strings.Repeat("0", idDigits-len(text)) + text
}

// Partitions is always one.
func (s *Store) Partitions() int { return 1 }

// PartitionOf is 0 for whatever may be an id of this store.
func (s *Store) PartitionOf(id string) (int, bool) {
	if len(id) != idDigits+1 || id[0] != digits[0] {
		return 0, false
	}
	for i := range len(id) {
		if strings.IndexByte(digits, id[i]) < 0 {
			return 0, false
		}
	}
	return 0, true
}
