package mtp

import (
	"fmt"

	"surmise/compute"
	"surmise/drafter"
	"surmise/kvcache"
)

// seq is the head's state for one sequence.
//
// Entries are made when they are needed: before the head proposes, or while the
// prompt is read. A head that is not asked for long owes entries; the oldest are
// given up then, so that it costs next to nothing and comes back cheaply.
type seq struct {
	d *Drafter
	// cache holds the entries; its length is at, or one more when the pending
	// token's entry has been made already.
	cache *kvcache.Seq
	from  int  // entries before it are not seen: they were never made, or given up
	solid int  // entries from 1 up to before it are made, if any were given up later
	made  int  // entries before it, from from on, are made
	lost  bool // there was no memory for the entries
	fresh bool // shares nothing with others
	at    int  // the target's position
	// states are the target's hidden states at made−1, made, …, at−1: what the
	// owed entries and that of the pending token read.
	states []float32
	// last is the state at at−1; empty when it was never seen.
	last []float32
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

// border is the key of the hidden state of a full page's last position, which
// the first entry of the next page reads.
type border struct{}

// Open starts a sequence. The entries of tokens that the target has cached
// already come from an earlier sequence with the same beginning; where those were
// evicted, the head sees what follows only.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	if !d.bound {
		return nil, fmt.Errorf("open a %s sequence: the drafter is not bound to a target", Name)
	}
	if o.Cached < 0 || o.Cached > len(o.Tokens) {
		return nil, fmt.Errorf("open a %s sequence: %d tokens cached of %d", Name, o.Cached, len(o.Tokens))
	}
	s := &seq{d: d, at: o.Cached, from: 1, made: 1, states: d.room(), fresh: o.Fresh}
	if o.Cached == 0 || o.Fresh {
		s.from, s.made = o.Cached+1, o.Cached+1
		s.cache = d.net.Cache().Open()
		s.append(o.Tokens[:o.Cached])
		return s, nil
	}
	// Match leaves a token uncached: any will do behind the cached ones.
	s.cache = d.net.Cache().Match(append(o.Tokens[:o.Cached:o.Cached], 0))
	have := s.cache.Len()
	if have == o.Cached {
		if h, ok := s.cache.State(border{}, have/compute.PageSize-1); ok {
			s.last = append(s.last, h.([]float32)...)
			s.states = append(s.states, s.last...)
			s.made = o.Cached
			return s, nil
		}
	}
	// What is missing was never seen: entries begin behind the next token.
	s.from, s.made = o.Cached+1, o.Cached+1
	s.append(o.Tokens[have:o.Cached])
	return s, nil
}

// append makes room for entries; without memory the sequence is not drafted any
// more.
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

// Fork copies the state; entries are shared until one of the two goes on.
func (s *seq) Fork() (drafter.Seq, error) {
	c := *s
	c.states, c.last = append(s.d.room(), s.states...), append([]float32(nil), s.last...)
	if !s.lost {
		var err error
		if c.cache, err = s.cache.Fork(); err != nil {
			return nil, fmt.Errorf("fork a %s sequence: %w", Name, err)
		}
	}
	return &c, nil
}

// Close offers the entries to later sequences with the same beginning.
func (s *seq) Close() error {
	defer s.leave()
	if s.lost || s.cache == nil {
		return nil
	}
	solid := s.solid
	if s.from == 1 {
		s.d.net.begin()
		if s.d.settle(s) == nil && s.d.net.run(s.d.dev) == nil {
			solid = s.at
		}
	}
	if s.cache.Truncate(min(solid, s.at)) == nil {
		s.publish(solid)
	}
	s.cache.Close()
	s.cache = nil
	return nil
}

// publish offers the entries, if they are all there is up to a position.
func (s *seq) publish(to int) {
	if !s.fresh && !s.lost && s.cache.Len() == to {
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
	return make([]float32, 0, (owedLimit+drafter.MaxWidth+2)*d.width)
}

// Observe takes in the states of the committed tokens.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	d.net.begin()
	d.ended = d.ended[:0]
	for _, o := range outcomes {
		s := o.Seq.(*seq)
		if o.Position != s.at {
			o.Err = fmt.Errorf("%s: outcome of a round at position %d, expected one at %d", Name, o.Position, s.at)
			continue
		}
		if len(o.Hidden) != 1 {
			o.Err = fmt.Errorf("%s: outcome with hidden states of %d layers, expected one", Name, len(o.Hidden))
			continue
		}
		if err := d.learn(s, o); err != nil {
			return fmt.Errorf("%s: %w", Name, err)
		}
	}
	if err := d.net.run(d.dev); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	for _, s := range d.ended {
		s.publish(s.at)
	}
	return nil
}

// learn keeps the states of an outcome's tokens, and takes entries into the
// program when too many are owed.
func (d *Drafter) learn(s *seq, o *drafter.Outcome) error {
	n := len(o.Committed)
	have := 0
	if !s.lost {
		have = min(s.cache.Len()-s.at, n)
	}
	s.at = o.After()
	if !s.append(o.Committed[have:]) || n == 0 {
		return nil
	}
	for i := range n {
		if o.Position+i >= s.made-1 {
			s.states = append(s.states, o.Hidden[0].Row(i)...)
		}
	}
	for page := o.Position / compute.PageSize; (page+1)*compute.PageSize <= s.at; page++ {
		state := append([]float32(nil), o.Hidden[0].Row((page+1)*compute.PageSize-1-o.Position)...)
		if err := s.cache.SetState(border{}, page, state); err != nil {
			return err
		}
	}
	s.last = append(s.last[:0], o.Hidden[0].Row(n-1)...)
	switch owed, reading := s.Owed(), n > o.Accepted+1; {
	case reading && o.Pending >= 0: // the prompt ends
		d.ended = append(d.ended, s)
		return d.settle(s)
	case reading && owed >= owedLimit:
		return d.settle(s)
	case owed >= owedLimit:
		s.giveUp(owed - owedKept)
	}
	return nil
}

// Owed is the number of entries that could be made and are not.
func (s *seq) Owed() int { return max(s.at-s.made, 0) }

// giveUp lets go of the oldest entries owed, and with them of sight of all before.
func (s *seq) giveUp(entries int) {
	if s.from == 1 {
		s.solid = s.made
	}
	s.made += entries
	s.from = s.made
	s.states = append(s.states[:0], s.states[entries*s.d.width:]...)
}

// settle takes the owed entries into the program, which is run whenever it is
// full.
func (d *Drafter) settle(s *seq) error {
	tokens := s.cache.Tokens()
	for p := s.made; p < s.at; p++ {
		if d.net.full() {
			if err := d.net.run(d.dev); err != nil {
				return err
			}
		}
		d.net.entry(s.cache, p, s.from, tokens[p], s.states[(p-s.made)*d.width:][:d.width], false)
	}
	s.made = max(s.made, s.at)
	s.states = append(s.states[:0], s.last...)
	return nil
}
