package redis

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/windrow-run/windrow/internal/store"
)

const (
	// maxPartitions bounds the partitions of a namespace: one character of an id names them.
	maxPartitions = 32
	slots         = 16384
	// idRandom is the number of random characters of an id: 22 of 62 are 130 bits.
	idRandom = 22
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// partitionTags returns one hash tag a partition, such that the i-th lies in the i-th of n equal ranges of slots. Masters of
// a cluster hold ranges of slots, so that partitions spread evenly over them. The tags depend on n alone: they are part of
// every key, for as long as the namespace lives.
func partitionTags(n int) []string {
	tags := make([]string, n)
	for found, i := 0, 0; found < n; i++ {
		tag := strconv.FormatInt(int64(i), 36)
		if at := slotOf(tag) * n / slots; tags[at] == "" {
			tags[at] = tag
			found++
		}
	}
	return tags
}

// slotOf is the Redis Cluster slot of a hash tag: CRC16 (XMODEM) modulo the number of slots.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// randomPartition is where a submission goes that no key leads anywhere.
func randomPartition(n int) int {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return int(binary.BigEndian.Uint64(b[:]) % uint64(n))
}

// newID makes an id that leads to the partition.
func newID(partition int) string {
	return alphabet[partition:partition+1] + randomText(idRandom)
}

// randomText returns n characters of the alphabet, each equally likely: bytes that would favour the first ones are dropped.
func randomText(n int) string {
	out := make([]byte, 0, n)
	var pool [32]byte
	for len(out) < n {
		rand.Read(pool[:]) // never fails
		for _, b := range pool {
			if int(b) < 256/len(alphabet)*len(alphabet) && len(out) < n {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}

// partitionOf tells which of n partitions an id leads to; false for a text that can't be an id.
func partitionOf(id string, n int) (int, bool) {
	if len(id) != idRandom+1 {
		return 0, false
	}
	for i := range len(id) {
		if strings.IndexByte(alphabet, id[i]) < 0 {
			return 0, false
		}
	}
	p := strings.IndexByte(alphabet, id[0])
	return p, p < n
}

// partitionOfKey is where an idempotency key lives, with the execution that it is bound to.
func partitionOfKey(k store.Key, n int) int {
	digest := keyDigest(k)
	return int(binary.BigEndian.Uint64(digest[:8]) % uint64(n))
}

// share is the part of an admission ceiling that a partition may fill. The shares add up to the ceiling, which is
// at least the number of partitions: the runtime refuses a lower one, since a partition without a share could never take a keyed submission.
func share(ceiling int64, partition, partitions int) int64 {
	if ceiling <= 0 {
		return 0
	}
	n, p := int64(partitions), int64(partition)
	part := ceiling / n
	if p < ceiling%n {
		part++
	}
	return max(part, 1)
}
