package redis_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// diagnose looks at the namespace of the kit as fast as it can.
func (k *kit) diagnose(how redis.Diagnosis) redis.Report {
	k.Helper()
	how.Rate = 1_000_000
	r, err := redis.Diagnose(k.Context(), redis.Config{URL: k.url(), Prefix: k.prefix}, how)
	k.ok(err)
	return r
}

func (k *kit) url() string {
	if k.server != nil {
		return k.server.URL()
	}
	return redistest.URL(k)
}

// counts are the findings of a report by code: how many, and how many are left.
func counts(r redis.Report) map[string][2]int {
	out := map[string][2]int{}
	for _, f := range r.Findings {
		out[f.Code] = [2]int{f.Count, f.Left}
	}
	return out
}

// inEveryStatus is a namespace with all that a store writes.
func (k *kit) inEveryStatus() map[execution.Status]string {
	k.Helper()
	ids := k.lives()
	sub := k.submission()
	sub.MaxOwned = 5
	sub.Delay, sub.Owner, sub.Labels = time.Hour, strings.Repeat("o", 100), "team=search"
	sub.Key = store.Key{Owner: sub.Owner, Deployment: sub.Deployment, Value: "k", Fingerprint: [32]byte{7}}
	sub.ID = k.store.NewID(sub.Key)
	_, err := k.store.Submit(k.Context(), sub)
	k.ok(err)
	ids["delayed"] = sub.ID
	return ids
}

// ownersIndex is the index of what the owner has who has a ceiling.
func (k *kit) ownersIndex() string {
	return fmt.Sprintf("owned:%x", sha1.Sum([]byte(strings.Repeat("o", 100))))
}

// Each kind of fault is found, repaired, and found no more; nothing else is.
func TestDoctor(t *testing.T) {
	t.Parallel()
	type ids = map[execution.Status]string
	var tests = map[string]struct {
		harm func(*kit, ids)
		want map[string][2]int // found, and left after a repair
		// after the repair
		check func(*kit, ids)
	}{
		"nothing": {func(*kit, ids) {}, nil, nil},
		"orphan keys": {func(k *kit, i ids) { k.del("c:" + i[execution.Completed]) },
			map[string][2]int{"orphan_keys": {1, 0}, "stray_member": {3, 0}}, nil},
		"orphan history": {func(k *kit, _ ids) {
			k.ok(redistest.Client(k).RPush(k.Context(), k.key("h:"+k.store.NewID(store.Key{})), "s0\t0").Err())
		}, map[string][2]int{"orphan_keys": {1, 0}}, nil},
		"history that outlives its execution": {func(k *kit, i ids) {
			k.ok(redistest.Client(k).RPush(k.Context(), k.key("h:"+i[execution.Completed]), "s0\t0").Err())
		}, map[string][2]int{"missing_ttl": {1, 0}}, func(k *kit, i ids) {
			if ttl := redistest.Client(k).PTTL(k.Context(), k.key("h:"+i[execution.Completed])).Val(); ttl <= 0 {
				k.Errorf("it stays for %v", ttl)
			}
		}},
		"history of another type": {func(k *kit, i ids) { k.wreck("h:" + i[execution.Running]) },
			map[string][2]int{"wrong_type": {1, 0}}, nil},
		"orphan of unfinished work": {func(k *kit, i ids) { k.del("c:" + i[execution.Waiting]) },
			map[string][2]int{"orphan_keys": {1, 0}, "stray_member": {4, 0}, "capacity": {2, 0}}, func(k *kit, _ ids) { k.counted("3", "story", "story@r1") }},
		"orphan binding": {func(k *kit, i ids) { k.del("c:"+i["delayed"], "m:"+i["delayed"], "i:"+i["delayed"]) },
			map[string][2]int{"orphan_binding": {1, 0}, "stray_member": {6, 0}, "capacity": {2, 0}}, nil},
		"binding that its control does not know": {func(k *kit, i ids) { k.ok(redistest.Client(k).HDel(k.Context(), k.key("c:"+i["delayed"]), "#").Err()) },
			map[string][2]int{"orphan_binding": {1, 0}}, nil},
		"vanished indexes": {func(k *kit, _ ids) { k.del("ready:story@r1", "delayed:story@r1", "leases", "retention") },
			map[string][2]int{"missing_index": {6, 0}}, nil},
		"index of another type": {func(k *kit, _ ids) { k.wreck("ready:story@r1"); k.wreck("running") },
			map[string][2]int{"wrong_type": {2, 0}, "missing_index": {2, 0}}, func(k *kit, i ids) {
				if p := k.poll(5); len(p.Claimed) != 1 || p.Claimed[0].Control.ID != i[execution.Queued] {
					k.Errorf("polled %+v", p)
				}
			}},
		"vanished listings": {func(k *kit, i ids) {
			k.del("all", "status:w", k.indexOf("owner:"), k.indexOf("label:"))
			k.zadd("of:story", i[execution.Queued], time.Now())
		}, map[string][2]int{"missing_index": {7, 0}}, func(k *kit, i ids) {
			if n := len(k.list(store.ListRequest{Labels: []string{"team=search"}})); n != 1 || len(k.list(store.ListRequest{})) != 7 {
				k.Errorf("%d of the label, and of all %v", n, k.list(store.ListRequest{}))
			}
			if p := k.poll(5); len(p.Claimed) != 1 || p.Claimed[0].Control.ID != i[execution.Queued] {
				k.Errorf("polled %+v", p)
			}
		}},
		"strays in listings": {func(k *kit, i ids) {
			for _, index := range []string{"of:other", "owner:0123456789abcdef", "label:0123456789abcdef", "status:f", "status:q"} {
				k.zadd(index, i[execution.Completed], time.Now())
			}
			k.zadd("all", "gone", time.Now())
		}, map[string][2]int{"stray_member": {6, 0}}, nil},
		"vanished owner's index": {func(k *kit, _ ids) { k.del(k.ownersIndex()) },
			map[string][2]int{"missing_index": {1, 0}}, func(k *kit, i ids) {
				if n := redistest.Client(k).ZScore(k.Context(), k.key(k.ownersIndex()), i["delayed"]).Val(); n == 0 {
					k.Error("the owner's work is not listed")
				}
			}},
		"owner's strays": {func(k *kit, i ids) {
			for _, id := range []string{i[execution.Completed], i[execution.Queued], "gone"} {
				k.zadd(k.ownersIndex(), id, time.Now())
			}
			k.zadd("owned:other", i["delayed"], time.Now())
		}, map[string][2]int{"stray_member": {4, 0}}, nil},
		"malformed work of an owner": {func(k *kit, i ids) { k.field(i["delayed"], "v", "x") },
			map[string][2]int{"malformed_control": {1, 0}}, func(k *kit, i ids) { k.failed(i["delayed"]) }},
		"a wait without its deadline": {func(k *kit, i ids) { k.field(i[execution.Waiting], "h", "1") },
			map[string][2]int{"missing_index": {1, 0}}, nil},
		"strays": {func(k *kit, i ids) {
			for _, index := range []string{"leases", "running", "waits", "ready:story@r1", "ready:story@r9", "malformed"} {
				k.zadd(index, i[execution.Completed], time.Now().Add(time.Hour))
			}
			k.zadd("delayed:story@r1", i[execution.Queued], time.Now())
			k.zadd("retention", i[execution.Running], time.Now().Add(time.Hour))
			k.zadd("retention", "gone", time.Now())
		}, map[string][2]int{"stray_member": {9, 0}}, nil},
		"counters": {func(k *kit, _ ids) {
			k.ok(redistest.Client(k).HSet(k.Context(), k.key("capacity"), "story", "9", "story@r1", "2", "gone", "3").Err())
		}, map[string][2]int{"capacity": {3, 0}}, func(k *kit, _ ids) { k.counted("4", "story", "story@r1") }},
		"counters of another type": {func(k *kit, _ ids) { k.wreck("capacity") },
			map[string][2]int{"wrong_type": {1, 0}, "capacity": {2, 0}}, func(k *kit, _ ids) { k.counted("4", "story", "story@r1") }},
		"counters that can't be read": {func(k *kit, _ ids) {
			k.ok(redistest.Client(k).HSet(k.Context(), k.key("capacity"), "story", "-4", "gone", "x").Err())
		}, map[string][2]int{"capacity": {2, 0}}, func(k *kit, _ ids) { k.counted("4", "story", "story@r1") }},
		"no lifetimes": {func(k *kit, i ids) {
			for _, key := range []string{"c:" + i[execution.Completed], "r:" + i[execution.Completed], "e:" + i[execution.Failed], "batch:w1"} {
				k.ok(redistest.Client(k).Persist(k.Context(), k.key(key)).Err())
			}
		}, map[string][2]int{"missing_ttl": {3, 0}}, nil},
		"payloads of another type": {func(k *kit, i ids) {
			for kind, status := range map[string]execution.Status{"i": execution.Queued, "w": execution.Waiting, "r": execution.Completed, "l": execution.Running} {
				k.wreck(kind + ":" + i[status])
			}
		}, map[string][2]int{"wrong_type": {4, 0}, "missing_ttl": {1, 0}}, func(k *kit, i ids) {
			k.counted("2", "story", "story@r1")
			k.failed(i[execution.Queued])
			k.failed(i[execution.Waiting])
			if r := k.read(i[execution.Running]); r.Control.Status != execution.Running {
				k.Errorf("what ran is %s", r.Control.Status)
			}
		}},
		"payloads that are gone": {func(k *kit, i ids) {
			k.del("i:"+i[execution.Queued], "i:"+i[execution.Running], "w:"+i[execution.Waiting], "i:"+i[execution.Completed])
		}, map[string][2]int{"missing_payload": {3, 0}}, func(k *kit, i ids) {
			k.counted("1", "story", "story@r1")
			for _, status := range []execution.Status{execution.Queued, execution.Running, execution.Waiting} {
				k.failed(i[status])
			}
		}},
		"a payload of another type and one that is gone": {func(k *kit, i ids) {
			k.wreck("i:" + i[execution.Waiting])
			k.del("w:" + i[execution.Waiting])
		}, map[string][2]int{"wrong_type": {1, 0}, "missing_payload": {1, 0}}, func(k *kit, i ids) {
			k.counted("3", "story", "story@r1")
			k.failed(i[execution.Waiting])
		}},
		"a lease long over": {func(k *kit, i ids) {
			k.field(i[execution.Running], "e", "1000")
			k.zadd("leases", i[execution.Running], time.UnixMilli(1000))
		}, map[string][2]int{"lease_over": {1, 0}}, func(k *kit, i ids) {
			if r := k.read(i[execution.Running]); r.Control.Status != execution.Queued {
				k.Errorf("what ran is %s", r.Control.Status)
			}
		}},
		"a newer schema": {func(k *kit, i ids) { k.field(i[execution.Queued], "z", "2") },
			map[string][2]int{"foreign_schema": {1, 1}}, nil},
		"unknown keys": {func(k *kit, i ids) {
			for _, key := range []string{":{0}:c:short", ":{0}:zzz", ":else", ":{0}:leases:x", ":{q}:leases"} {
				k.ok(redistest.Client(k).Set(k.Context(), k.prefix+key, "x", 0).Err())
			}
		}, map[string][2]int{"unknown_key": {4, 4}, "unknown_partition": {1, 1}}, nil},
		"other keys of another type": {func(k *kit, i ids) {
			k.wreck("batch:w1")
			k.wreck("served")
			k.wreck("malformed")
		}, map[string][2]int{"wrong_type": {3, 0}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			all := k.inEveryStatus()
			test.harm(k, all)
			want := map[string][2]int{}
			for code, n := range test.want {
				want[code] = [2]int{n[0], n[0]}
			}
			before := k.dump()
			if diff := cmp.Diff(want, counts(k.diagnose(redis.Diagnosis{}))); diff != "" {
				t.Errorf("looked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, k.dump()); diff != "" {
				t.Errorf("looking changed something:\n%s", diff)
			}
			k.healed(test.want)
			if test.check != nil {
				test.check(k, all)
			}
		})
	}
}

// healed repairs, and holds what is found then and afterwards against what should be.
func (k *kit) healed(want map[string][2]int) {
	k.Helper()
	r := k.diagnose(redis.Diagnosis{Repair: true})
	all := map[string][2]int{}
	maps.Copy(all, want)
	if diff := cmp.Diff(all, counts(r)); diff != "" {
		k.Errorf("repaired (-want +got):\n%s", diff)
	}
	left := map[string][2]int{}
	for code, n := range all {
		if n[1] > 0 {
			left[code] = [2]int{n[1], n[1]}
		}
	}
	if diff := cmp.Diff(left, counts(k.diagnose(redis.Diagnosis{}))); diff != "" {
		k.Errorf("found after the repair (-want +got):\n%s", diff)
	}
}

func (k *kit) del(names ...string) {
	k.Helper()
	for i, name := range names {
		names[i] = k.key(name)
	}
	if n := redistest.Client(k).Del(k.Context(), names...).Val(); n != int64(len(names)) {
		k.Fatalf("%d of %d keys were there", n, len(names))
	}
}

func (k *kit) zadd(index, id string, at time.Time) {
	k.Helper()
	k.ok(redistest.Client(k).Do(k.Context(), "ZADD", k.key(index), at.UnixMilli(), id).Err())
}

// counted holds the counters against what they should be, and there are no others.
func (k *kit) counted(n string, fields ...string) {
	k.Helper()
	want := map[string]string{}
	for _, field := range fields {
		want[field] = n
	}
	if diff := cmp.Diff(want, redistest.Client(k).HGetAll(k.Context(), k.key("capacity")).Val()); diff != "" {
		k.Errorf("counters (-want +got):\n%s", diff)
	}
}

// failed holds that an execution ended because of what is stored of it.
func (k *kit) failed(id string) {
	k.Helper()
	r := k.read(id)
	f, err := execution.DecodeFailure(r.Error)
	if r.Control.Status != execution.Failed || err != nil || f.Code != execution.FailureStoredInvalid {
		k.Errorf("%s is %s, with error %s", id, r.Control.Status, r.Error)
	}
}

// dump is all that stands under the prefix, as the server would save it.
func (k *kit) dump() map[string]string {
	k.Helper()
	out := map[string]string{}
	for _, key := range redistest.Keys(k, k.prefix+":*") {
		out[key] = redistest.Client(k).Dump(k.Context(), key).Val()
	}
	return out
}

// A control that can't be read is ended with what can be saved of it: whose it is, its times, its key. An end that it shows is kept.
func TestDoctorBuries(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		for status, field := range map[execution.Status]string{execution.Queued: "a", execution.Running: "a", execution.Waiting: "q",
			execution.Completed: "h", execution.Canceled: "nonsense", execution.Failed: "b", "delayed": "t"} {
			t.Run(fmt.Sprint(status, " listed ", listed), func(t *testing.T) {
				t.Parallel()
				k := newKit(t)
				all := k.inEveryStatus()
				id := all[status]
				old := k.read(id).Control
				k.field(id, field, "nonsense")
				if listed && (status == execution.Queued || status == execution.Running) {
					k.zadd("leases", id, time.UnixMilli(1)) // where maintenance finds it
					_, err := k.store.Maintain(t.Context(), 10)
					k.ok(err)
				}
				k.healed(map[string][2]int{"malformed_control": {1, 0}})
				now := k.read(id).Control
				if old.Status.Terminal() {
					k.counted("4", "story", "story@r1")
					if now.Status != old.Status {
						t.Errorf("what was %s is %s", old.Status, now.Status)
					}
				} else {
					k.counted("3", "story", "story@r1")
					k.failed(id)
				}
				if now.Owner != old.Owner || now.Deployment != old.Deployment || now.Version < old.Version ||
					field != "b" && now.CreatedAt != old.CreatedAt {
					t.Errorf("%+v became %+v", old, now)
				}
				if status == "delayed" {
					sub := k.submission()
					sub.Owner = old.Owner
					sub.Key = store.Key{Owner: sub.Owner, Deployment: sub.Deployment, Value: "k", Fingerprint: [32]byte{7}}
					out, err := k.store.Submit(t.Context(), sub)
					if err != nil || out.Record.Control.ID != id {
						t.Errorf("the key leads to %s: %v", out.Record.Control.ID, err)
					}
				}
			})
		}
	}
}

// After the clock was set back, what was created or ended ahead of it does not tell whether it holds a place now. Counters of
// it are left alone, and said not to be verified.
func TestDoctorAheadOfTheClock(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	k.submit()
	done := k.start()
	clock.advance(time.Second)
	k.complete(done)
	clock.step(-time.Hour)
	r, err := redis.Diagnose(t.Context(), redis.StandingClock(redis.Config{URL: k.url(), Prefix: k.prefix}), redis.Diagnosis{Repair: true, Rate: 1_000_000})
	k.ok(err)
	if found := counts(r)["capacity"]; found != [2]int{} {
		t.Errorf("%d counters are said to be wrong, and %d are left so", found[0], found[1])
	}
	if want := []string{"story in partition 0", "story@r1 in partition 0"}; !slices.Equal(r.Unverified, want) {
		t.Errorf("not verified: %q, want %q", r.Unverified, want)
	}
	k.counted("1", "story", "story@r1")
}

// Leases that are long over are taken back in every partition.
func TestDoctorMaintainsPartitions(t *testing.T) {
	t.Parallel()
	s, clock := standing(t, 3, store.Limits{})
	k := &kit{T: t, store: s, prefix: clock.prefix, rev: store.Revision{Deployment: "story", Revision: "r1"}}
	for range 12 {
		k.submit()
	}
	if n := len(k.poll(12).Claimed); n != 12 {
		t.Fatalf("%d were claimed", n)
	}
	clock.advance(time.Hour)
	r, err := redis.Diagnose(t.Context(), redis.StandingClock(redis.Config{URL: k.url(), Prefix: k.prefix}), redis.Diagnosis{Repair: true, Rate: 1_000_000})
	k.ok(err)
	if found := counts(r)["lease_over"]; found != [2]int{12, 0} {
		t.Errorf("%d leases are over, and %d are left so", found[0], found[1])
	}
	if n := len(k.poll(12).Claimed); n != 12 {
		t.Errorf("%d were claimed again, want 12", n)
	}
}

// A namespace is repaired also where its servers have no room.
func TestDoctorWithoutRoom(t *testing.T) {
	t.Parallel()
	k := ownKit(t, redis.Config{Prefix: "oom"})
	ids := k.inEveryStatus()
	client := k.own.Client()
	k.ok(client.HSet(t.Context(), k.key("capacity"), "story", "9", "gone", "3").Err())
	for _, index := range []string{"ready:story@r1", "leases", "running", "retention"} {
		k.ok(client.Del(t.Context(), k.key(index)).Err())
	}
	for kind, status := range map[string]execution.Status{"i": execution.Running, "l": execution.Completed} {
		k.ok(client.Del(t.Context(), k.key(kind+":"+ids[status])).Err())
		k.ok(client.SAdd(t.Context(), k.key(kind+":"+ids[status]), "x").Err())
	}
	k.full()
	r, err := redis.Diagnose(t.Context(), redis.Config{URL: k.own.URL(), Prefix: k.prefix}, redis.Diagnosis{Repair: true, Rate: 1_000_000})
	k.ok(err)
	if !r.Healthy() || counts(r)["capacity"] != [2]int{2, 0} || counts(r)["missing_index"][0] < 4 || counts(r)["wrong_type"] != [2]int{2, 0} {
		t.Errorf("found %v, healthy %t", counts(r), r.Healthy())
	}
}

// A control of which nothing can be saved goes with all that belongs to it. Without its owner it would be everybody's.
func TestDoctorRemoves(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*kit, string){
		"another type":   func(k *kit, id string) { k.wreck("c:" + id) },
		"no deployment":  func(k *kit, id string) { k.ok(redistest.Client(k).HDel(k.Context(), k.key("c:"+id), "d").Err()) },
		"no long values": func(k *kit, id string) { k.del("m:" + id) },
		"wrecked long":   func(k *kit, id string) { k.wreck("m:" + id) },
		"empty revision": func(k *kit, id string) { k.field(id, "r", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			id := k.inEveryStatus()["delayed"]
			harm(k, id)
			r := k.diagnose(redis.Diagnosis{Repair: true})
			if f := counts(r)["malformed_control"]; f != [2]int{1, 0} || !r.Healthy() {
				t.Errorf("found %v, healthy %t", counts(r), r.Healthy())
			}
			k.healed(nil)
			k.counted("3", "story", "story@r1")
			for key := range k.dump() {
				if strings.Contains(key, id) || strings.Contains(key, ":b:") {
					t.Errorf("%q is left", key)
				}
			}
		})
	}
}

// Samples name executions, and bindings by their digest, in hexadecimal.
func TestDoctorSamples(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for range 12 {
		id := k.submit()
		k.ok(redistest.Client(t).ZRem(t.Context(), k.key("ready:story@r1"), id).Err())
	}
	digest := strings.Repeat("\x01\xff", 16)
	k.ok(redistest.Client(t).Set(t.Context(), k.key("b:"+digest), "short", 0).Err())
	for _, f := range k.diagnose(redis.Diagnosis{}).Findings {
		switch f.Code {
		case redis.FoundMissingIndex:
			if f.Count != 12 || len(f.Samples) != 10 || f.Remedy == "" {
				t.Errorf("found %+v", f)
			}
		case redis.FoundOrphanBinding:
			if !slices.Equal(f.Samples, []string{hex.EncodeToString([]byte(digest))}) {
				t.Errorf("samples %q", f.Samples)
			}
		default:
			t.Errorf("found %+v", f)
		}
	}
}

// A root that is gone is made again where somebody says with how many partitions, and they fit.
func TestDoctorRoot(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*kit){
		"gone":         func(k *kit) { k.ok(redistest.Client(k).Del(k.Context(), k.prefix+":namespace").Err()) },
		"another type": func(k *kit) { k.ok(redistest.Client(k).Set(k.Context(), k.prefix+":namespace", "x", 0).Err()) },
		"unreadable": func(k *kit) {
			k.ok(redistest.Client(k).HSet(k.Context(), k.prefix+":namespace", "partitions", "x").Err())
		},
		"contradictory": func(k *kit) {
			k.ok(redistest.Client(k).HSet(k.Context(), k.prefix+":namespace", "partitions", "99").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := partitioned(t, 4)
			k.spread(1)
			harm(k)
			want := map[string][2]int{"namespace_root": {1, 1}}
			for _, how := range []redis.Diagnosis{{}, {Repair: true}, {Partitions: 4}} {
				if diff := cmp.Diff(want, counts(k.diagnose(how))); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", how, diff)
				}
			}
			_, err := redis.Diagnose(t.Context(), redis.Config{URL: k.url(), Prefix: k.prefix}, redis.Diagnosis{Repair: true, Partitions: 2})
			if err == nil || !strings.Contains(err.Error(), "--partitions") {
				t.Errorf("two partitions: %v", err)
			}
			want["namespace_root"] = [2]int{1, 0}
			if diff := cmp.Diff(want, counts(k.diagnose(redis.Diagnosis{Repair: true, Partitions: 4}))); diff != "" {
				t.Errorf("repaired (-want +got):\n%s", diff)
			}
			k.ok(k.store.Open(t.Context()))
			k.healed(nil)
		})
	}
}

// A number of partitions that has the same tags, and would look for executions elsewhere, is refused before anything is written.
func TestDoctorRootMisfit(t *testing.T) {
	t.Parallel()
	for right, wrong := range map[int]int{1: 2, 2: 1, 4: 8} {
		t.Run(fmt.Sprint(right, " as ", wrong), func(t *testing.T) {
			t.Parallel()
			k := partitioned(t, right)
			k.spread(1)
			k.ok(redistest.Client(t).Del(t.Context(), k.prefix+":namespace").Err())
			before := k.dump()
			_, err := redis.Diagnose(t.Context(), redis.Config{URL: k.url(), Prefix: k.prefix}, redis.Diagnosis{Repair: true, Partitions: wrong})
			if err == nil || !strings.Contains(err.Error(), "--partitions") {
				t.Errorf("error is %v, want one with --partitions", err)
			}
			if diff := cmp.Diff(before, k.dump()); diff != "" {
				t.Errorf("refusing changed something:\n%s", diff)
			}
			k.diagnose(redis.Diagnosis{Repair: true, Partitions: right})
			k.ok(k.store.Open(t.Context()))
			k.healed(nil)
		})
	}
}

// What can't be checked is an error: no namespace, a newer one, no server.
func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	refused := func(c redis.Config, want string) {
		t.Helper()
		if _, err := redis.Diagnose(t.Context(), c, redis.Diagnosis{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	refused(redis.Config{URL: k.url(), Prefix: k.prefix + "x"}, "no namespace")
	refused(redis.Config{URL: "redis://127.0.0.1:1"}, "did not answer")
	k.ok(redistest.Client(t).HSet(t.Context(), k.prefix+":namespace", "schema", "2").Err())
	refused(redis.Config{URL: k.url(), Prefix: k.prefix}, "newer release")
}

// While clients and workers are busy nothing is found and nothing is repaired; a counter that is off is put right, be it too
// high, or too low, and then held up at zero by what ends.
func TestDoctorUnderLoad(t *testing.T) {
	t.Parallel()
	k := partitioned(t, 4)
	c := &busy{kit: k, checker: storetest.NewChecker()}
	var later []string
	for range 40 {
		s := k.submission()
		s.Delay = time.Hour
		out, err := k.store.Submit(t.Context(), s)
		k.ok(err)
		later = append(later, out.Record.Control.ID)
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { c.work(ctx, fmt.Sprint("w", i)) })
	}
	for range 2 {
		workers.Go(func() { c.submit(ctx) })
	}
	for i := range 20 {
		want := map[string][2]int{}
		switch i {
		case 10:
			k.ok(redistest.Client(t).HIncrBy(t.Context(), k.prefix+":{0}:capacity", "story", 5).Err())
			want["capacity"] = [2]int{1, 0}
		case 15:
			k.ok(redistest.Client(t).Del(t.Context(), k.prefix+":{0}:capacity").Err())
			want["capacity"] = [2]int{2, 0}
		}
		r := k.diagnose(redis.Diagnosis{Repair: true, Rate: 1_000_000})
		if diff := cmp.Diff(want, counts(r)); diff != "" || len(r.Unverified) > 0 {
			t.Errorf("run %d (-want +got):\n%s%+v, unverified %v", i, diff, r.Findings, r.Unverified)
		}
	}
	stop()
	workers.Wait()
	for c.drain() > 0 {
		continue
	}
	k.healed(nil)
	for _, id := range later {
		_, err := k.store.Cancel(t.Context(), id, store.Scope{All: true}, "")
		k.ok(err)
	}
	c.verify()
}

// Doctors that repair at the same time correct a counter once.
func TestDoctorsTogether(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for range 30 {
		k.submit()
	}
	for range 5 {
		k.ok(redistest.Client(t).HIncrBy(t.Context(), k.key("capacity"), "story", 5).Err())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				how := redis.Diagnosis{Repair: true, Rate: 1_000_000}
				if _, err := redis.Diagnose(t.Context(), redis.Config{URL: k.url(), Prefix: k.prefix}, how); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		k.healed(nil)
		k.counted("30", "story", "story@r1")
	}
}

// busy is a load of which a checker hears.
type busy struct {
	*kit
	checker *storetest.Checker

	mu  sync.Mutex // guards the following
	ids []string
}

// beats counts, at a pace that keeps the load the same on every machine, until ctx ends.
func beats(ctx context.Context, pace time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if !yield(n) {
				return
			}
		}
	}
}

func (b *busy) submit(ctx context.Context) {
	for n := range beats(ctx, 20*time.Millisecond) { // what has ended stays: a doctor that is slow must not find ever more of it
		key := store.Key{Deployment: "story", Value: strconv.Itoa(n), Fingerprint: [32]byte{1}}
		s := store.Submission{Submit: execution.Submit{Deployment: "story", Revision: "r1", Budgets: execution.DefaultBudgets(), Input: []byte("1")}}
		if n%2 == 0 {
			s.Key = key
		}
		s.ID = b.store.NewID(s.Key)
		out, err := b.store.Submit(context.WithoutCancel(ctx), s)
		if err != nil {
			b.Error(err)
			return
		}
		b.checker.Submitted(s.Key, out.Record.Control.ID)
		b.mu.Lock()
		b.ids = append(b.ids, out.Record.Control.ID)
		b.mu.Unlock()
		if n%7 == 0 {
			r, err := b.store.Cancel(context.WithoutCancel(ctx), out.Record.Control.ID, store.Scope{All: true}, "")
			if err != nil {
				b.Error(err)
				return
			}
			b.checker.Canceled(r)
		}
	}
}

func (b *busy) work(ctx context.Context, worker string) {
	for n := range beats(ctx, 4*time.Millisecond) {
		b.claim(context.WithoutCancel(ctx), worker, fmt.Sprint(worker, "-", n), 8)
	}
}

// claim runs a batch, and returns of how many executions.
func (b *busy) claim(ctx context.Context, worker, token string, count int) int {
	p, err := b.store.Poll(ctx, store.PollRequest{Worker: worker, Token: token,
		Revisions: []store.Want{{Revision: b.rev, Count: count, Lease: lease}}})
	if err != nil {
		b.Error(err)
		return 0
	}
	for i, claimed := range p.Claimed {
		b.checker.Claimed(claimed)
		o := execution.Owned{Ownership: owner(claimed.Control), Operation: token + "-" + strconv.Itoa(i)}
		op := b.checker.Begin(claimed.Control.ID, claimed.Control.Fence, nil)
		var cmd execution.Command = execution.Complete{Owned: o, Result: []byte("1")}
		if i%3 == 1 && claimed.Control.Attempt < 2 {
			cmd = execution.Release{Owned: o}
		}
		after, err := b.store.Transition(ctx, claimed.Control, cmd)
		if err != nil && execution.CodeOf(err) == execution.CodeLeaseLost {
			continue // canceled meanwhile
		}
		if err != nil {
			b.Error(err)
			return 0
		}
		op.Committed(after.Control, nil)
	}
	return len(p.Claimed)
}

// drain runs what is left, a batch at a time.
func (b *busy) drain() int { return b.claim(b.Context(), "last", b.token(), 50) }

func (b *busy) verify() {
	b.Helper()
	for _, id := range b.ids {
		b.checker.Observed(b.read(id))
	}
	got, err := b.store.Counts(b.Context())
	b.ok(err)
	b.checker.AtRest(got)
	b.checker.Assert(b.T)
	b.healed(nil)
	if len(b.ids) < 100 {
		b.Errorf("only %d executions took part", len(b.ids))
	}
}

// Scripts do a bounded amount of work, however much is stored, and KEYS is never used. A machine with other things to do
// holds a command up now and then; it is the many that count.
func TestDoctorIsBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: server.URL()})
	k.prefix, k.server = "windrow", server
	const n = 10_000
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := range n / 4 {
				k.fill(part*n+i, i%2 == 0, false, nil)
			}
		})
	}
	all.Wait()
	client := server.Client()
	k.ok(client.Del(t.Context(), "windrow:{0}:ready:story@r1").Err())
	k.ok(client.ConfigSet(t.Context(), "slowlog-log-slower-than", "10000").Err())
	k.ok(client.ConfigSet(t.Context(), "slowlog-max-len", "10000").Err())
	for _, repair := range []bool{false, true, false} {
		k.ok(client.ConfigResetStat(t.Context()).Err())
		k.ok(client.Do(t.Context(), "SLOWLOG", "RESET").Err())
		r := k.diagnose(redis.Diagnosis{Repair: repair})
		if f := counts(r); len(f) > 0 && f["missing_index"][0] != n {
			t.Errorf("found %v", f)
		}
		k.quick(client)
	}
	if got := client.ZCard(t.Context(), "windrow:{0}:ready:story@r1").Val(); got != n {
		t.Errorf("%d are ready, want %d", got, n)
	}
}

// quick holds what ran since the last reset against what it may take.
func (k *kit) quick(client *goredis.Client) {
	k.Helper()
	stats, err := client.InfoMap(k.Context(), "commandstats").Result()
	k.ok(err)
	var scripts, micros float64
	_, err = fmt.Sscanf(stats["Commandstats"]["cmdstat_evalsha"], "calls=%f,usec=%f", &scripts, &micros)
	k.ok(err)
	slow, err := client.SlowLogGet(k.Context(), 10_000).Result()
	k.ok(err)
	k.Logf("%.0f scripts of %.0f us, %d commands over 10 ms", scripts, micros/scripts, len(slow))
	if micros/scripts > 4000 || float64(len(slow)) > scripts/20 {
		k.Errorf("%.0f scripts took %.0f us each, and %d commands over 10 ms", scripts, micros/scripts, len(slow))
	}
	if stats["Commandstats"]["cmdstat_keys"] != "" || stats["Commandstats"]["cmdstat_scan"] == "" {
		k.Errorf("commands %v", stats["Commandstats"])
	}
}
