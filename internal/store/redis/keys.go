package redis

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/windrow-run/windrow/internal/store"
)

// keyspace builds the names of keys. Scripts build theirs from the anchor, in lua/base.lua; no name is made elsewhere.
type keyspace struct {
	prefix string
	tags   []string // hash tag of each partition
}

func newKeyspace(prefix string, partitions int) keyspace {
	return keyspace{prefix: prefix, tags: partitionTags(partitions)}
}

// namespace is the root: what is fixed when a namespace is created.
func (k keyspace) namespace() string { return k.prefix + ":namespace" }

// all is the pattern of every key of the namespace. A prefix has no character that means something in a pattern.
func (k keyspace) all() string { return k.prefix + ":*" }

// controls is the pattern of the controls of all partitions.
func (k keyspace) controls() string { return k.prefix + ":{*}:c:*" }

// place tells the partition of a key and what follows its anchor; partition -1 where the tag is of no partition, and ok is false
// where the key has none.
func (k keyspace) place(key string) (partition int, rest string, ok bool) {
	tagged, ok := strings.CutPrefix(key, k.prefix+":{")
	tag, rest, closed := strings.Cut(tagged, "}:")
	if !ok || !closed {
		return 0, "", false
	}
	return slices.Index(k.tags, tag), rest, true
}

// anchor begins every key of a partition. No key of that very name exists.
func (k keyspace) anchor(partition int) string { return k.prefix + ":{" + k.tags[partition] + "}:" }

func (k keyspace) log(partition int, id string) string { return k.anchor(partition) + "l:" + id }

// wake is the stream that ends a blocked read of one tail.
func (k keyspace) wake(partition int, tail string) string {
	return k.anchor(partition) + "wake:" + tail
}

// bell is the channel of a partition's doorbell.
func (k keyspace) bell(partition int) string { return k.anchor(partition) + "bell" }

// queueName is how indexes, counters and the doorbell call a revision. A deployment's name has no "@", so it reads back.
func queueName(r store.Revision) string { return r.Deployment + "@" + r.Revision }

// keyDigest identifies an idempotency key within its scope. The parts are length-prefixed, so that no two scopes collide.
func keyDigest(k store.Key) [32]byte {
	h := sha256.New()
	for _, part := range []string{k.Owner, k.Deployment, k.Value} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return [32]byte(h.Sum(nil))
}
