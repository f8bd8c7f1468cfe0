package hidden

import (
	"fmt"

	"surmise/drafter"
	"surmise/kvcache"
)

// While a prompt is read, what is owed is made once it is most positions. When as
// many are owed in the midst of a text, all but the latest kept are given up: to
// take them in would cost more than a try is worth.
const (
	most = 64
	kept = 32
)

// Track is a drafter's state for one sequence.
type Track struct {
	// Cache is as long as the target's, or gone when Lost.
	Cache *kvcache.Seq
	// From is the position before which nothing is seen: it was never made, or
	// given up. Positions from From on and before Made are made.
	From, Made int
	// At is the target's position.
	At int
	// Lost tells that there was no memory for Cache.
	Lost bool
	// States are the hidden states that what is owed reads, one behind the other.
	States []float32

	first int // of all positions that are ever made
	solid int // positions before it are made, if any were given up later
	fresh bool
	width int
	rooms *Rooms
}

// Rooms is memory of closed tracks, for those to come.
type Rooms struct{ free [][]float32 }

// Start is a track at a position of the target, with no cache yet. States have
// the given width, and first is the first position that is ever made.
func (r *Rooms) Start(at, first, width int, fresh bool) Track {
	return Track{At: at, From: first, Made: first, first: first, width: width, fresh: fresh, rooms: r, States: r.take(width)}
}

func (r *Rooms) take(width int) []float32 {
	if n := len(r.free); n > 0 {
		room := r.free[n-1]
		r.free = r.free[:n-1]
		return room
	}
	return make([]float32, 0, (most+drafter.MaxWidth+2)*width)
}

// Position is the target's position.
func (t *Track) Position() int { return t.At }

// Owed is the number of positions that could be made and are not.
func (t *Track) Owed() int { return max(t.At-t.Made, 0) }

// Append makes room for positions; without memory the track is lost, and its
// sequence is not drafted any more.
func (t *Track) Append(tokens []int32) bool {
	if t.Lost {
		return false
	}
	if err := t.Cache.Append(tokens); err != nil {
		t.Cache.Close()
		t.Lost = true
	}
	return !t.Lost
}

// Check tells whether an outcome follows what the track has taken in, with the
// hidden states of so many layers unless the sequence rested.
func (t *Track) Check(o *drafter.Outcome, layers int) error {
	if o.Position != t.At {
		return fmt.Errorf("outcome of a round at position %d, expected one at %d", o.Position, t.At)
	}
	if len(o.Hidden) != layers && !o.Rested {
		return fmt.Errorf("outcome with hidden states of %d layers, expected %d", len(o.Hidden), layers)
	}
	return nil
}

// Due tells, behind an outcome that was taken in, whether what is owed shall be
// made now, and whether the prompt ended with it. In the midst of a text the
// oldest of too much owed is given up, and with it sight of all before.
func (t *Track) Due(o *drafter.Outcome) (make, ended bool) {
	owed := t.Owed()
	if reading := len(o.Committed) > o.Accepted+1; reading {
		ended = o.Pending >= 0
		return ended || owed >= most, ended
	}
	if owed >= most {
		t.giveUp(owed - kept)
	}
	return false, false
}

func (t *Track) giveUp(positions int) {
	t.blind(t.Made + positions)
	t.States = append(t.States[:0], t.States[positions*t.width:]...)
}

// Rest takes in an outcome without hidden states, and gives up everything before
// the position that is made next.
func (t *Track) Rest(next int) {
	t.blind(next)
	t.States = t.States[:0]
}

// blind gives up sight of everything before a position.
func (t *Track) blind(position int) {
	if t.From == t.first {
		t.solid = t.Made
	}
	t.From, t.Made = position, position
}

// Fork copies the track; what is cached is shared until one of the two goes on.
// What is owed is made before by settle: places of the cache that are taken already
// are shared too, and not to be written by both.
func (t *Track) Fork(settle func() error) (Track, error) {
	if !t.Lost && t.Owed() > 0 {
		if err := settle(); err != nil {
			return Track{}, err
		}
	}
	c := *t
	if !t.Lost {
		var err error
		if c.Cache, err = t.Cache.Fork(); err != nil {
			return Track{}, err
		}
	}
	c.States = append(t.rooms.take(t.width), t.States...)
	return c, nil
}

// Publish offers what is cached to later sequences with the same beginning, if
// that is all there is up to a position.
func (t *Track) Publish(to int) {
	if !t.fresh && !t.Lost && t.Cache.Len() == to {
		t.Cache.Publish()
	}
}

// Close offers what is made to later sequences with the same beginning, and lets
// go of everything. What is owed is made before by settle, unless some of it was
// given up.
func (t *Track) Close(settle func() error) {
	if t.States != nil {
		defer func() { t.rooms.free, t.States = append(t.rooms.free, t.States[:0]), nil }()
	}
	if t.Lost || t.Cache == nil {
		return
	}
	solid := t.solid
	if t.From == t.first && settle() == nil {
		solid = t.At
	}
	if t.Cache.Truncate(min(solid, t.At)) == nil {
		t.Publish(solid)
	}
	t.Cache.Close()
	t.Cache = nil
}
