package dflash

import (
	"fmt"

	"surmise/drafter"
	"surmise/kvcache"
	"surmise/model"
)

// seq is the context of one sequence.
//
// Context is computed when it is needed: before a block, or while the prompt is
// read. A drafter that is not asked for long owes context; the oldest is given up
// then, so that it costs next to nothing and comes back cheaply.
type seq struct {
	d     *Drafter
	cache *kvcache.Seq // as long as the target's, or gone
	from  int          // positions before it have no context: it was never made, or given up
	solid int          // positions before it have context, if any was given up later
	made  int          // positions before it have their context
	lost  bool         // there was no memory for the context
	fresh bool         // shares nothing with others
	at    int          // the target's position
	// states are the hidden states of positions made…at−1, those of all layers
	// side by side.
	states []float32
}

// While a prompt is read, what is owed is made once it is owedLimit positions. When
// as many are owed in the midst of a text, all but the latest owedKept are given
// up: to take them in would cost more than a try is worth.
const (
	owedLimit = 64
	owedKept  = 32
)

func (s *seq) Drafter() drafter.Drafter { return s.d }
func (s *seq) Position() int            { return s.at }

// Open starts a sequence. Of tokens that the target has cached already, the
// context is taken from an earlier sequence with the same beginning; where that
// was evicted, blocks see the context from there on only.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	if !d.bound {
		return nil, fmt.Errorf("open a %s sequence: the drafter is not bound to a target", Name)
	}
	if o.Cached < 0 || o.Cached > len(o.Tokens) {
		return nil, fmt.Errorf("open a %s sequence: %d tokens cached of %d", Name, o.Cached, len(o.Tokens))
	}
	s := &seq{d: d, at: o.Cached, made: o.Cached, states: d.room(), fresh: o.Fresh}
	if o.Cached > 0 && !o.Fresh {
		// Match leaves a token uncached: any will do behind the cached ones.
		s.cache = d.net.Cache().Match(append(o.Tokens[:o.Cached:o.Cached], 0))
	}
	if s.cache == nil {
		s.cache = d.net.Cache().Open()
	}
	if have := s.cache.Len(); have > o.Cached {
		if err := s.cache.Truncate(o.Cached); err != nil {
			return nil, fmt.Errorf("open a %s sequence: %w", Name, err)
		}
	} else if have < o.Cached {
		// The tail before Cached was never seen; nothing before it is used.
		s.from = o.Cached
		s.append(o.Tokens[have:o.Cached])
	}
	return s, nil
}

// append makes room for positions; without memory the sequence is not drafted
// any more.
func (s *seq) append(tokens []int32) bool {
	if s.lost {
		return false
	}
	if err := s.cache.Append(tokens); err != nil {
		s.cache.Close()
		s.lost = true
	}
	return !s.lost
}

// Fork copies the context, which is shared until one of the two goes on.
func (s *seq) Fork() (drafter.Seq, error) {
	c := *s
	c.states = append(s.d.room(), s.states...)
	if !s.lost {
		var err error
		if c.cache, err = s.cache.Fork(); err != nil {
			return nil, fmt.Errorf("fork a %s sequence: %w", Name, err)
		}
	}
	return &c, nil
}

// Close offers the context to later sequences with the same beginning.
func (s *seq) Close() error {
	defer s.leave()
	if s.lost || s.cache == nil {
		return nil
	}
	solid := s.solid
	if s.from == 0 {
		s.d.net.begin()
		if s.d.net.settle(s) == nil && s.d.net.context() == nil {
			solid = s.at
		}
	}
	if s.cache.Truncate(solid) == nil {
		s.publish()
	}
	s.cache.Close()
	s.cache = nil
	return nil
}

// publish offers the context, all of which is made.
func (s *seq) publish() {
	if !s.fresh && !s.lost {
		s.cache.Publish()
	}
}

// leave gives the memory for owed states back.
func (s *seq) leave() {
	if s.states != nil {
		s.d.rooms = append(s.d.rooms, s.states[:0])
		s.states = nil
	}
}

// room is memory for owed states, of a closed sequence if there is one.
func (d *Drafter) room() []float32 {
	if n := len(d.rooms); n > 0 {
		r := d.rooms[n-1]
		d.rooms = d.rooms[:n-1]
		return r
	}
	return make([]float32, 0, (owedLimit+drafter.MaxWidth+2)*d.net.taps.Cols)
}

// Owed is the number of positions without their context.
func (s *seq) Owed() int { return s.at - s.made }

// giveUp lets go of the oldest context owed, and with it of sight of all before.
func (s *seq) giveUp(positions int) {
	if s.from == 0 {
		s.solid = s.made
	}
	s.made += positions
	s.from = s.made
	s.states = append(s.states[:0], s.states[positions*s.d.net.taps.Cols:]...)
}

// Observe takes in the hidden states of the committed tokens.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	n := d.net
	n.begin()
	d.ended = d.ended[:0]
	for _, o := range outcomes {
		s := o.Seq.(*seq)
		if o.Position != s.at {
			o.Err = fmt.Errorf("%s: outcome of a round at position %d, expected one at %d", Name, o.Position, s.at)
			continue
		}
		if len(o.Hidden) != len(d.cfg.layers) {
			o.Err = fmt.Errorf("%s: outcome with hidden states of %d layers, expected %d", Name, len(o.Hidden), len(d.cfg.layers))
			continue
		}
		s.at = o.After()
		if !s.append(o.Committed) {
			continue
		}
		for i := range o.Committed {
			for _, h := range o.Hidden {
				s.states = append(s.states, h.Row(i)...)
			}
		}
		switch owed, reading := s.Owed(), len(o.Committed) > o.Accepted+1; {
		case reading && (o.Pending >= 0 || owed >= owedLimit):
			if err := n.settle(s); err != nil {
				return fmt.Errorf("%s: %w", Name, err)
			}
			if o.Pending >= 0 { // the prompt ends
				d.ended = append(d.ended, s)
			}
		case owed >= owedLimit:
			s.giveUp(owed - owedKept)
		}
	}
	if err := n.context(); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	for _, s := range d.ended {
		s.publish()
	}
	return nil
}

// settle takes the positions a sequence owes into the program, which is run
// whenever it is full.
func (n *network) settle(s *seq) error {
	width := n.taps.Cols
	for i := 0; s.made < s.at; i++ {
		if n.Rows == model.Chunk {
			if err := n.context(); err != nil {
				return err
			}
		}
		copy(n.taps.Row(n.Rows), s.states[i*width:][:width])
		n.Place(s.cache, s.made, 1, s.from)
		s.made++
	}
	s.states = s.states[:0]
	return nil
}
