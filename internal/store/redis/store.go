package redis

import (
	"context"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Store keeps executions in Redis. Use New and then Open.
type Store struct {
	config  Config
	keys    keyspace
	client  goredis.UniversalClient
	scripts scripts
	history *histories
	moved   *overflow

	submitting, applying []*lane // by partition

	conditions *conditions
	standing   *standing
	stamps     stamps

	ctx   context.Context // ends with Close
	close context.CancelFunc
	calls sync.WaitGroup // what goes on by itself or blocks: exchanges, Listen, reads of tails

	mu    sync.Mutex         // guards the following
	tails map[*tail]struct{} // open ones
	ended bool
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Reporter = (*Store)(nil)
)

// New makes a store. It opens no connection; the error tells which part of the configuration can't be used.
func New(c Config) (*Store, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	client, err := connect(c)
	if err != nil {
		return nil, err
	}
	goredis.SetLogger(quiet{})
	s := &Store{
		config:  c,
		keys:    newKeyspace(c.Prefix, c.Partitions),
		client:  client,
		scripts: loadScripts(c.Limits, c.Ack.waits(), c.clock),
		history: newHistories(c.Limits),
		moved:   newOverflow(),
		tails:   map[*tail]struct{}{},

		conditions: newConditions(c),
		stamps:     stamps{last: map[int]int64{}},
	}
	s.standing = &standing{store: s}
	s.submitting, s.applying = s.lanes(&s.scripts.submit, 1), s.lanes(&s.scripts.apply, 3)
	s.ctx, s.close = context.WithCancel(context.Background())
	return s, nil
}

// quiet keeps the client from writing to the standard error. It has one logger for the process, and whatever it says there
// comes back as an error too.
type quiet struct{}

// Printf says nothing.
func (quiet) Printf(context.Context, string, ...any) {}

// usable is an error where ctx or the store has ended, or where the servers hold what this process must not touch.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if s.ctx.Err() != nil {
		return unavailable(goredis.ErrClosed)
	}
	return s.standing.refusal()
}

// enter counts a blocking call in, so that Close waits for it; false where the store has ended.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.calls.Add(1)
	}
	return !s.ended
}

// Close implements [store.Store]. It returns when no blocked call is left.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	open := make([]*tail, 0, len(s.tails))
	for t := range s.tails {
		open = append(open, t)
	}
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.close()
	for _, t := range open {
		_ = t.Close() // it never fails
	}
	err := s.client.Close() // cuts off what is under way
	s.calls.Wait()
	return err
}

// NewID implements [store.Store].
func (s *Store) NewID(key store.Key) string {
	if key.Value == "" {
		return newID(randomPartition(s.config.Partitions))
	}
	return newID(partitionOfKey(key, s.config.Partitions))
}

// Partitions implements [store.Store].
func (s *Store) Partitions() int { return s.config.Partitions }

// PartitionOf implements [store.Store].
func (s *Store) PartitionOf(id string) (int, bool) { return partitionOf(id, s.config.Partitions) }

// locate is PartitionOf for operations on one execution: what can't be an id names none.
func (s *Store) locate(id string) (int, error) {
	p, ok := s.PartitionOf(id)
	if !ok {
		return 0, execution.Errorf(execution.CodeNotFound, "no such execution")
	}
	return p, nil
}
