// Package stream lets many viewers follow the event logs of executions over few blocked reads. It knows neither HTTP nor
// Redis: a [Hub] reads from a store and hands out events, of which something else makes Server-Sent Events.
//
// # From log to viewer
//
//	            history: pages, at the viewer's own pace
//	store.Read ────────────────────────────────────────────▶ Viewer
//	                                                           │ join, when a page reached the end of the log
//	store.Tail ──▶ group ──▶ topic ──▶ gate ──▶ gate ──▶ gate ◀┘
//	               (≤ 200 logs)  live: decoded once, shared by all viewers
//
// A viewer begins in the past. It reads pages of the log inside its own [Viewer.Next], so a slow one delays nobody, and joins
// the live side once a page reached the end. There is one topic for each execution that has live viewers. Topics of one
// partition share a group: one goroutine with one tail, that is one blocked read over at most GroupSize logs. A topic decodes
// each entry once and hangs it on a chain of gates. A viewer stands at a gate until it opens, so publishing costs the same for
// one viewer as for a thousand, a viewer at rest holds no memory of the stream, and the garbage collector frees what all have
// passed. Who falls further behind than the buffer allows is cut, and catches up by its cursor.
//
// Who wants to know when something changes, and not what was streamed before, begins at the newest entry ([Hub.Await]). A viewer may
// also do without kinds of events ([Kinds]): they are passed over as it goes, so that its place, what it can prove and its keepalives
// stay those of one that is told all.
//
// # No loss, no repeat
//
// The rules of what may follow what stand in one place, the trail: a pure value that holds the position in a log and what must
// hold of the next entry. Viewers in the past and topics use the same one. It keeps invariant 6:
//
//   - Every read of the past begins with the entry that was seen last. Its presence under the same epoch proves that nothing
//     between was lost; its absence is answered with a gap.
//   - Chunks are numbered within their attempt. A number that does not follow gives a gap, also in live entries. The output of
//     attempts before the newest is void: where it was trimmed, the change of attempt may be all that is told of it.
//   - A viewer joins a topic only if the topic has not passed it; it then drops what it saw already, by position. If the topic
//     has passed it, it reads one more page.
//   - After any failed read a topic proves its position again before it goes on. If it can't, or is far behind, it sends its
//     viewers back to the past, where each one finds out for itself.
//
// Control is the authority and the log a view of it. So a viewer that reaches the end of the log is told a status that the log
// does not show, and at each keepalive the controls of all topics are read in one exchange: a lost end marker, an erased
// execution and a log with another epoch are found then.
//
// # Locks
//
// Hub.mu guards who is where: topics, groups, and the topics of a group. topic.mu guards one topic's chain and its viewers. Hub.mu
// comes first. No lock is held over a call of the store. What else a group, topic or viewer holds belongs to one goroutine: the
// group's, or the one that calls the viewer.
package stream
