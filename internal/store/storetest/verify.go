package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// control takes in a control that was acknowledged. Two of one version must agree on all that only a transition changes.
func (c *Checker) control(now execution.Control) {
	w := c.work(now.ID)
	before, ok := w.controls[now.Version]
	switch {
	case !ok:
		w.controls[now.Version] = now
	case before.Status != now.Status || before.Fence != now.Fence || before.Attempt != now.Attempt ||
		before.WaitSequence != now.WaitSequence || before.UpdatedAt != now.UpdatedAt || before.ProgressSequence != now.ProgressSequence:
		c.violatedf(1, now.ID, "two states have version %d: %s, attempt %d, and %s, attempt %d",
			now.Version, before.Status, before.Attempt, now.Status, now.Attempt)
	}
	b := now.Budgets
	open := !now.Status.Terminal()
	if now.LostLeases > b.LostLeases || open && now.LostLeases == b.LostLeases || now.Retries > b.Retries || now.Claims > b.Claims {
		c.violatedf(4, now.ID, "%s with %d lost leases, %d retries, %d claims of %+v", now.Status, now.LostLeases, now.Retries, now.Claims, b)
	}
}

// Verify returns what was violated, in a fixed order. It may be called again after more was reported.
func (c *Checker) Verify() []Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.found
	c.found = slices.Clone(found)
	for _, id := range slices.Sorted(maps.Keys(c.works)) {
		w := c.works[id]
		c.verifyEnd(id, w)
		c.verifyOrder(id, w)
		c.verifyClaims(id, w)
		c.verifyCheckpoints(id, w)
		c.verifyAnswers(id, w)
		c.verifyProgress(id, w)
	}
	c.verifyKeys()
	c.verifyViewers()
	all := c.found
	c.found = found
	slices.SortStableFunc(all, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// verifyEnd: an accepted submission reaches one terminal state (1), a cancel that was acknowledged wins (8), and all agree (12).
func (c *Checker) verifyEnd(id string, w *work) {
	var end execution.Control
	for _, v := range slices.Sorted(maps.Keys(w.controls)) {
		now := w.controls[v]
		if end.Status != "" {
			c.violatedf(1, id, "version %d is %s after the end as %s in version %d", v, now.Status, end.Status, end.Version)
			break
		}
		if now.Status.Terminal() {
			end = now
		}
	}
	if end.Status == "" && w.submitted && !w.erased && !c.partial {
		c.violatedf(1, id, "accepted, and never seen to end")
	}
	if w.canceled && end.Status != "" && end.Status != execution.Canceled {
		c.violatedf(8, id, "ended as %s after an acknowledged cancel", end.Status)
	}
	for _, source := range slices.Sorted(maps.Keys(w.ends)) {
		if said := w.ends[source]; end.Status != "" && said != end.Status {
			c.violatedf(12, id, "%s says %s, the record says %s", source, said, end.Status)
		}
	}
}

// verifyOrder: with the version grow the time and the counters (4), and with each attempt its fence (3).
func (c *Checker) verifyOrder(id string, w *work) {
	var last execution.Control
	for _, v := range slices.Sorted(maps.Keys(w.controls)) {
		now := w.controls[v]
		if now.UpdatedAt < last.UpdatedAt {
			c.violatedf(1, id, "version %d was made before version %d", v, last.Version)
		}
		if now.Attempt < last.Attempt || now.LostLeases < last.LostLeases || now.Retries < last.Retries {
			c.violatedf(4, id, "version %d counts less than version %d", v, last.Version)
		}
		if now.Fence < last.Fence || (now.Fence > last.Fence) != (now.Attempt > last.Attempt) {
			c.violatedf(3, id, "fence %d of attempt %d after fence %d of attempt %d", now.Fence, now.Attempt, last.Fence, last.Attempt)
		}
		last = now
	}
}

// verifyClaims: an attempt is handed out once, and none is skipped (4). A claim whose worker died before it could
// tell leaves no report, so that a number may be missing here; it must still be one that the versions leave room for.
func (c *Checker) verifyClaims(id string, w *work) {
	claims := slices.Clone(w.claims)
	slices.SortStableFunc(claims, func(a, b store.Claimed) int { return int(a.Control.Attempt - b.Control.Attempt) })
	var last execution.Control
	for _, claim := range claims {
		now := claim.Control
		switch {
		case now.Attempt < 1:
			c.violatedf(4, id, "a claim has attempt %d", now.Attempt)
		case now.Attempt == last.Attempt && (now.Fence != last.Fence || now.Token != last.Token):
			c.violatedf(4, id, "attempt %d was handed out twice", now.Attempt)
		case now.Attempt > last.Attempt && now.Version-last.Version < 2*(now.Attempt-last.Attempt):
			c.violatedf(4, id, "attempt %d in version %d after attempt %d in version %d", now.Attempt, now.Version, last.Attempt, last.Version)
		}
		last = now
	}
}

// verifyCheckpoints: a claim starts from the newest acknowledged checkpoint, or from a later one (5).
func (c *Checker) verifyCheckpoints(id string, w *work) {
	for _, claim := range w.claims {
		var newest commit
		older := map[[32]byte]bool{}
		for _, k := range w.checkpoints {
			if k.version < claim.Control.Version && k.version > newest.version {
				newest = k
			}
		}
		for _, k := range w.checkpoints {
			if k.version < newest.version && k.data != newest.data {
				older[k.data] = true
			}
		}
		got := sha256.Sum256(claim.Checkpoint)
		switch {
		case claim.Checkpoint == nil && newest.version != 0:
			c.violatedf(5, id, "attempt %d saw no checkpoint after one in version %d", claim.Control.Attempt, newest.version)
		case claim.Checkpoint == nil:
		case older[got]:
			c.violatedf(5, id, "attempt %d saw a checkpoint older than the one in version %d", claim.Control.Attempt, newest.version)
		case !w.sent[got]:
			c.violatedf(5, id, "attempt %d saw a checkpoint that nobody sent", claim.Control.Attempt)
		}
	}
}

// verifyAnswers: an acknowledged answer is applied once, to one wait, and reaches the next attempt (7).
func (c *Checker) verifyAnswers(id string, w *work) {
	byWait, byKey := map[int64]int{}, map[string]int{}
	for _, a := range w.answers {
		if a.replayed {
			continue
		}
		if byWait[a.wait]++; byWait[a.wait] == 2 {
			c.violatedf(7, id, "wait %d was answered twice", a.wait)
		}
		if byKey[a.key]++; a.key != "" && byKey[a.key] == 2 {
			c.violatedf(7, id, "the answer with key %q was applied twice", a.key)
		}
		for _, claim := range w.claims {
			if claim.Control.Version == a.version+1 && !bytes.Equal(claim.Answer, a.data) {
				c.violatedf(7, id, "attempt %d did not see the answer of version %d", claim.Control.Attempt, a.version)
			}
		}
	}
}

// verifyProgress: each event has its number, and the newest is the one that control names (11).
func (c *Checker) verifyProgress(id string, w *work) {
	for _, r := range w.records {
		next := r.Control.ProgressSequence - int64(len(r.Progress)) + 1
		for _, data := range r.Progress {
			var e struct{ Sequence int64 }
			if err := json.Unmarshal(data, &e); err != nil || e.Sequence != next {
				c.violatedf(11, id, "progress event %d stands where %d belongs in version %d", e.Sequence, next, r.Control.Version)
				break
			}
			next++
		}
	}
}

// verifyKeys: a key leads to one execution and stands for one body (2).
func (c *Checker) verifyKeys() {
	for k, bound := range c.keys {
		if all := slices.Sorted(maps.Keys(bound)); len(all) > 1 {
			c.violatedf(2, all[0], "key %q leads to %d executions", k.value, len(all))
		}
	}
	for _, r := range c.refusals {
		for id, fingerprint := range c.keys[scopedKey{r.Owner, r.Deployment, r.Value}] {
			if fingerprint == r.Fingerprint {
				c.violatedf(2, id, "key %q was refused with the body that it is bound to", r.Value)
			}
		}
	}
}
