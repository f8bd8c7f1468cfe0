package mtp

import (
	"fmt"

	"surmise/compute"
	"surmise/drafter"
	"surmise/drafter/hidden"
)

// seq is the head's state for one sequence. What it makes of a position is the
// entry of the token there, which reads the target's state at the position before:
// entries begin at position 1, and the states kept are those at Made−1, Made, …,
// At−1. The cache is one longer than At when the pending token's entry has been
// made already.
type seq struct {
	hidden.Track
	d *Drafter
	// last is the state at At−1; empty when it was never seen.
	last []float32
}

func (s *seq) Drafter() drafter.Drafter { return s.d }

// border is the key of the hidden state of a full page's last position, which
// the first entry of the next page reads.
type border struct{}

// Open starts a sequence. The entries of tokens that the target has cached
// already come from an earlier sequence with the same beginning; where those were
// evicted, the head sees what follows only.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	if err := o.Check(Name, d.bound); err != nil {
		return nil, err
	}
	s := &seq{d: d, Track: d.rooms.Start(o.Cached, 1, d.width, o.Fresh)}
	if o.Cached == 0 || o.Fresh {
		s.From, s.Made = o.Cached+1, o.Cached+1
		s.Cache = d.net.Cache().Open()
		s.Append(o.Tokens[:o.Cached])
		return s, nil
	}
	// Match leaves a token uncached: any will do behind the cached ones.
	s.Cache = d.net.Cache().Match(append(o.Tokens[:o.Cached:o.Cached], 0))
	have := s.Cache.Len()
	if have == o.Cached {
		if h, ok := s.Cache.State(border{}, have/compute.PageSize-1); ok {
			s.last = append(s.last, h.([]float32)...)
			s.States = append(s.States, s.last...)
			s.Made = o.Cached
			return s, nil
		}
	}
	// What is missing was never seen: entries begin behind the next token.
	s.From, s.Made = o.Cached+1, o.Cached+1
	s.Append(o.Tokens[have:o.Cached])
	return s, nil
}

// Fork copies the state; entries are shared until one of the two goes on. What is
// owed is made before, since both would make it in the same place.
func (s *seq) Fork() (drafter.Seq, error) {
	track, err := s.Track.Fork(s.settle)
	if err != nil {
		return nil, fmt.Errorf("fork a %s sequence: %w", Name, err)
	}
	return &seq{d: s.d, Track: track, last: append([]float32(nil), s.last...)}, nil
}

// Close offers the entries to later sequences with the same beginning.
func (s *seq) Close() error {
	s.Track.Close(s.settle)
	return nil
}

// settle makes what is owed.
func (s *seq) settle() error {
	s.d.net.begin()
	if err := s.d.settle(s); err != nil {
		return err
	}
	return s.d.net.run(s.d.dev)
}

// Observe takes in the states of the committed tokens.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	d.net.begin()
	d.ended = d.ended[:0]
	for _, o := range outcomes {
		s := o.Seq.(*seq)
		if err := s.Check(o, 1); err != nil {
			o.Err = fmt.Errorf("%s: %w", Name, err)
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
		s.Publish(s.At)
	}
	return nil
}

// learn keeps the states of an outcome's tokens, and takes entries into the
// program when they are due.
func (d *Drafter) learn(s *seq, o *drafter.Outcome) error {
	n := len(o.Committed)
	have := 0
	if !s.Lost {
		have = min(s.Cache.Len()-s.At, n)
	}
	s.At = o.After()
	if !s.Append(o.Committed[have:]) || n == 0 {
		return nil
	}
	if o.Rested {
		s.Rest(s.At + 1)
		s.last = s.last[:0]
		return nil
	}
	for i := range n {
		if o.Position+i >= s.Made-1 {
			s.States = append(s.States, o.Hidden[0].Row(i)...)
		}
	}
	for page := o.Position / compute.PageSize; (page+1)*compute.PageSize <= s.At; page++ {
		state := append([]float32(nil), o.Hidden[0].Row((page+1)*compute.PageSize-1-o.Position)...)
		if err := s.Cache.SetState(border{}, page, state); err != nil {
			return err
		}
	}
	s.last = append(s.last[:0], o.Hidden[0].Row(n-1)...)
	due, ended := s.Due(o)
	if ended {
		d.ended = append(d.ended, s)
	}
	if due {
		return d.settle(s)
	}
	return nil
}

// settle takes the owed entries into the program, which is run whenever it is
// full.
func (d *Drafter) settle(s *seq) error {
	tokens := s.Cache.Tokens()
	for p := s.Made; p < s.At; p++ {
		if d.net.full() {
			if err := d.net.run(d.dev); err != nil {
				return err
			}
		}
		d.net.entry(s.Cache, p, s.From, tokens[p], s.States[(p-s.Made)*d.width:][:d.width], false)
	}
	s.Made = max(s.Made, s.At)
	s.States = append(s.States[:0], s.last...)
	return nil
}
