package redis

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

// Codes of conditions.
const (
	conditionUnchecked     = "unchecked"       // the servers do not tell what has to be checked
	conditionNoPersistence = "no_persistence"  // a restart of a server loses everything
	conditionEviction      = "eviction"        // executions may be evicted
	conditionVersion       = "version"         // a server is too old
	conditionNamespace     = "namespace"       // what is stored is not what this process may work on
	conditionAck           = "acknowledgement" // changes can't be acknowledged as is asked for
	conditionNoRoom        = "no_room"         // maxmemory is reached
	conditionNoWrites      = "no_writes"       // a server takes no writes for another reason
	conditionRestarted     = "restarted"       // another server run answers
	conditionDataLost      = "data_lost"       // something that was stored is gone
)

// eventAge is how long what has happened, and is over, is still told of.
const eventAge = 24 * time.Hour

// conditions are what is known of the servers and the namespace.
type conditions struct {
	log     *slog.Logger
	changed func(code string, holds bool) // nil: nobody wants to know

	mu  sync.Mutex // guards the following
	now map[string]store.Condition
}

func newConditions(c Config) *conditions {
	return &conditions{log: c.Logger, changed: c.Condition, now: map[string]store.Condition{}}
}

// hold says that a condition holds. It is logged when it begins, and when there is something new to say of it.
func (c *conditions) hold(code, message string, severe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, held := c.now[code]
	if held && before.Message == message && before.Severe == severe {
		return
	}
	since := time.Now()
	if held && !isEvent(code) {
		since = before.Since
	}
	c.now[code] = store.Condition{Code: code, Message: message, Since: since, Severe: severe}
	c.log.Warn(message, "condition", code)
	if !held || isEvent(code) {
		c.tell(code, true)
	}
}

// set says whether a condition holds.
func (c *conditions) set(holds bool, code, message string, severe bool) {
	if holds {
		c.hold(code, message, severe)
	} else {
		c.end(code)
	}
}

// end says that a condition does not hold, any more or at all.
func (c *conditions) end(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, held := c.now[code]; held {
		c.log.Info("no longer: "+before.Message, "condition", code)
		c.forgetLocked(code)
	}
}

func (c *conditions) forgetLocked(code string) {
	delete(c.now, code)
	c.tell(code, false)
}

func (c *conditions) tell(code string, holds bool) {
	if c.changed != nil {
		c.changed(code, holds)
	}
}

// isEvent reports whether a condition tells of something that happened: it ends by its age.
func isEvent(code string) bool { return code == conditionRestarted || code == conditionDataLost }

// list returns what holds, without events that are old news.
func (c *conditions) list() []store.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]store.Condition, 0, len(c.now))
	for code, one := range c.now {
		if isEvent(code) && time.Since(one.Since) > eventAge {
			c.forgetLocked(code)
			continue
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b store.Condition) int { return cmp.Compare(a.Code, b.Code) })
	return out
}

// Conditions implements [store.Reporter].
func (s *Store) Conditions() []store.Condition { return s.conditions.list() }

// room notes whether the servers take submissions; refusal is what one says to a write, empty where all take it.
func (s *Store) room(refusal string) {
	full := strings.Contains(refusal, "OOM")
	s.conditions.set(full, conditionNoRoom, "Redis has reached maxmemory: submissions are refused, and work that was accepted goes on. "+
		"Raise maxmemory, or lower --terminal-ttl (WINDROW_TERMINAL_TTL)", true)
	s.conditions.set(refusal != "" && !full, conditionNoWrites, "Redis refuses writes ("+errorCode(refusal)+"): its log says why", true)
}

// errorCode is the code in what a server says: the first word in capitals. Where a script asked, its place may stand before it.
func errorCode(text string) string {
	for word := range strings.FieldsSeq(text) {
		if word = strings.TrimLeft(word, "-"); len(word) > 2 && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return word
		}
	}
	return "ERR"
}
