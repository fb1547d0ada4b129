package memory

import (
	"container/heap"
	"strings"
)

// agenda keeps ids by time. The first is the earliest; of several at one time, the smallest id.
type agenda struct {
	order dates
	byID  map[string]*date
}

type date struct {
	id    string
	at    int64
	place int // in order
}

func newAgenda() *agenda { return &agenda{byID: map[string]*date{}} }

func (a *agenda) len() int { return len(a.order) }

// put enters the id, or moves it to another time.
func (a *agenda) put(id string, at int64) {
	if d := a.byID[id]; d != nil {
		d.at = at
		heap.Fix(&a.order, d.place)
		return
	}
	d := &date{id: id, at: at}
	a.byID[id] = d
	heap.Push(&a.order, d)
}

// of is the time of the id; 0: it is not there.
func (a *agenda) of(id string) int64 {
	if d := a.byID[id]; d != nil {
		return d.at
	}
	return 0
}

// drop removes the id if it is there.
func (a *agenda) drop(id string) {
	if d := a.byID[id]; d != nil {
		heap.Remove(&a.order, d.place)
		delete(a.byID, id)
	}
}

// first returns the earliest id and its time.
func (a *agenda) first() (id string, at int64, ok bool) {
	if len(a.order) == 0 {
		return "", 0, false
	}
	return a.order[0].id, a.order[0].at, true
}

// due returns the earliest id if its time has come.
func (a *agenda) due(now int64) (id string, at int64, ok bool) {
	id, at, ok = a.first()
	return id, at, ok && at <= now
}

// after is the earliest time that has not come. Its cost is in proportion to the number of ids whose time has.
func (a *agenda) after(now int64) (at int64, ok bool) { return a.order.after(0, now) }

// after looks from a place down: what is below a later date is no earlier.
func (d dates) after(place int, now int64) (at int64, ok bool) {
	if place >= len(d) {
		return 0, false
	}
	if d[place].at > now {
		return d[place].at, true
	}
	left, okLeft := d.after(2*place+1, now)
	right, okRight := d.after(2*place+2, now)
	if !okLeft || okRight && right < left {
		return right, okRight
	}
	return left, true
}

// count is the number of ids whose time has come. Its cost is in proportion to that number.
func (a *agenda) count(now int64) int { return a.order.count(0, now) }

// count counts from a place down: nothing below a later date is earlier.
func (d dates) count(place int, now int64) int {
	if place >= len(d) || d[place].at > now {
		return 0
	}
	return 1 + d.count(2*place+1, now) + d.count(2*place+2, now)
}

// dates is the heap itself.
type dates []*date

func (d dates) Len() int { return len(d) }

func (d dates) Less(i, j int) bool {
	if d[i].at != d[j].at {
		return d[i].at < d[j].at
	}
	return strings.Compare(d[i].id, d[j].id) < 0
}

func (d dates) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *dates) Push(x any) {
	e := x.(*date)
	e.place = len(*d)
	*d = append(*d, e)
}

func (d *dates) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return e
}
