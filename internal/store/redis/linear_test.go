package redis_test

import (
	"testing"

	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// TestLinearizable sees that what clients see of the store at once has an order.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	storetest.Linearizable(t, stepping(nil))
}

// stepping makes stores with planted faults, whose clock moves at once for all who use it.
func stepping(faults map[string]string) storetest.Factory {
	return func(tb testing.TB, limits store.Limits) storetest.Env {
		tb.Helper()
		s, clock := standing(tb, 1, limits)
		for text, broken := range faults {
			if err := s.Plant(text, broken); err != nil {
				tb.Fatal(err)
			}
		}
		return storetest.Env{Store: s, Advance: clock.step}
	}
}

// A store that lacks one of its guards gives itself away within a minute. Each fault takes away exactly what is named: the
// others guard behind it.
func TestLinearizableFinds(t *testing.T) {
	t.Parallel()
	faults := map[string]map[string]string{
		"a fence that is not compared": {" and c.f == fence and": " and"},
		"a lease that never ends":      {" and ms < c.e - margin": ""},
		"a version that is not compared": {
			"if not owned(c, p.worker, p.token, p.fence, p.margin) then return 'lost' end\n    if c.v ~= p.version then return 'moved' end": "if not owned(c, p.worker, p.token, p.fence, p.margin) then return 'lost' end",
		},
		"a cancel that does not win":          {"if c.v ~= p.version then return 'moved' end": "if c.v ~= p.version and c.x == 0 then return 'moved' end"},
		"an operation that is not recognized": {"if p.operation ~= '' and": "if false and"},
		"a batch that is not remembered":      {"if #out > 1 or (shared or doubt) and lease > 0 then remember() end": ""},
		"an answer that is not bound":         {"if digest ~= '' then redis.call('HSET', key('n', id), digest, body) end": ""},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Refuted(t, stepping(fault))
		})
	}
}

// The same for idempotency keys.
func TestLinearizableFindsKeys(t *testing.T) {
	t.Parallel()
	faults := map[string]map[string]string{
		"a body that is not compared":     {"if c and string.sub(value, 1, 32) ~= fingerprint then": "if false then"},
		"a key that outlives its binding": {"if digest ~= '' then redis.call('SET', key('b', digest), fingerprint .. id) end": ""},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RefutedKeys(t, stepping(fault))
		})
	}
}
