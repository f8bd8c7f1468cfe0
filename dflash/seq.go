package dflash

import (
	"fmt"

	"surmise/drafter"
	"surmise/drafter/hidden"
	"surmise/model"
)

// seq is the context of one sequence: keys and values of every position, made of
// the hidden states of all layers there, which are kept side by side.
type seq struct {
	hidden.Track
	d *Drafter
}

func (s *seq) Drafter() drafter.Drafter { return s.d }

// Open starts a sequence. Of tokens that the target has cached already, the
// context is taken from an earlier sequence with the same beginning; where that
// was evicted, blocks see the context from there on only.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	if err := o.Check(Name, d.bound); err != nil {
		return nil, err
	}
	s := &seq{d: d, Track: d.rooms.Start(o.Cached, 0, d.net.taps.Cols, o.Fresh)}
	s.Made = o.Cached
	if o.Cached > 0 && !o.Fresh {
		// Match leaves a token uncached: any will do behind the cached ones.
		s.Cache = d.net.Cache().Match(append(o.Tokens[:o.Cached:o.Cached], 0))
	}
	if s.Cache == nil {
		s.Cache = d.net.Cache().Open()
	}
	if have := s.Cache.Len(); have > o.Cached {
		if err := s.Cache.Truncate(o.Cached); err != nil {
			return nil, fmt.Errorf("open a %s sequence: %w", Name, err)
		}
	} else if have < o.Cached {
		// The tail before Cached was never seen; nothing before it is used.
		s.From = o.Cached
		s.Append(o.Tokens[have:o.Cached])
	}
	return s, nil
}

// Fork copies the context, which is shared until one of the two goes on. What is
// owed is made before, since both would make it in the same place.
func (s *seq) Fork() (drafter.Seq, error) {
	track, err := s.Track.Fork(s.settle)
	if err != nil {
		return nil, fmt.Errorf("fork a %s sequence: %w", Name, err)
	}
	return &seq{d: s.d, Track: track}, nil
}

// Close offers the context to later sequences with the same beginning.
func (s *seq) Close() error {
	s.Track.Close(s.settle)
	return nil
}

// settle makes what is owed.
func (s *seq) settle() error {
	s.d.net.begin()
	if err := s.d.net.settle(s); err != nil {
		return err
	}
	return s.d.net.context()
}

// Observe takes in the hidden states of the committed tokens.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	n := d.net
	n.begin()
	d.ended = d.ended[:0]
	for _, o := range outcomes {
		s := o.Seq.(*seq)
		if err := s.Check(o, len(d.cfg.layers)); err != nil {
			o.Err = fmt.Errorf("%s: %w", Name, err)
			continue
		}
		s.At = o.After()
		if !s.Append(o.Committed) {
			continue
		}
		if o.Rested {
			s.Rest(s.At)
			continue
		}
		for i := range o.Committed {
			for _, h := range o.Hidden {
				s.States = append(s.States, h.Row(i)...)
			}
		}
		due, ended := s.Due(o)
		if ended {
			d.ended = append(d.ended, s)
		}
		if due {
			if err := n.settle(s); err != nil {
				return fmt.Errorf("%s: %w", Name, err)
			}
		}
	}
	if err := n.context(); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	for _, s := range d.ended {
		s.Publish(s.At)
	}
	return nil
}

// settle takes the positions a sequence owes into the program, which is run
// whenever it is full.
func (n *network) settle(s *seq) error {
	width := n.taps.Cols
	for i := 0; s.Made < s.At; i++ {
		if n.Rows == model.Chunk {
			if err := n.context(); err != nil {
				return err
			}
		}
		copy(n.taps.Row(n.Rows), s.States[i*width:][:width])
		n.Place(s.Cache, s.Made, 1, s.From)
		s.Made++
	}
	s.States = s.States[:0]
	return nil
}
