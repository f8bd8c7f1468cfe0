package mtp

import (
	"fmt"

	"surmise/compute"
	"surmise/drafter"
	"surmise/kvcache"
)

// seq is the head's state for one sequence.
type seq struct {
	d *Drafter
	// cache holds the entries; its length is at, or one more when the pending
	// token's entry has been made already.
	cache *kvcache.Seq
	from  int       // entries before it were never made
	lost  bool      // there was no memory for the entries
	at    int       // the target's position
	state []float32 // the target's hidden state at at−1; empty when not known
}

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
	s := &seq{d: d, at: o.Cached, from: 1}
	if o.Cached == 0 {
		s.cache = d.net.Cache().Open()
		return s, nil
	}
	// Match leaves a token uncached: any will do behind the cached ones.
	s.cache = d.net.Cache().Match(append(o.Tokens[:o.Cached:o.Cached], 0))
	have := s.cache.Len()
	if have == o.Cached {
		if h, ok := s.cache.State(border{}, have/compute.PageSize-1); ok {
			s.state = append(s.state, h.([]float32)...)
			return s, nil
		}
	}
	// What is missing was never seen: entries begin behind the next token.
	s.from = o.Cached + 1
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
	c.state = append([]float32(nil), s.state...)
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
	if s.lost || s.cache == nil {
		return nil
	}
	if s.from == 1 && s.cache.Truncate(s.at) == nil {
		s.cache.Publish()
	}
	s.cache.Close()
	s.cache = nil
	return nil
}

// Observe makes the entries of the committed tokens from the target's states,
// for all sequences together.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	d.net.begin()
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
	if err := d.net.run(d.dev, false); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	return nil
}

// learn takes the entries of an outcome's tokens into the program, which is run
// whenever it is full. The entry of the first token may be there already.
func (d *Drafter) learn(s *seq, o *drafter.Outcome) error {
	n := len(o.Committed)
	made := 0
	if !s.lost {
		made = min(s.cache.Len()-s.at, n)
	}
	s.at = o.After()
	if !s.append(o.Committed[made:]) || n == 0 {
		return nil
	}
	for i := made; i < n; i++ {
		state := s.state
		if i > 0 {
			state = o.Hidden[0].Row(i - 1)
		}
		position := o.Position + i
		if position < s.from || len(state) == 0 {
			continue
		}
		if d.net.full() {
			if err := d.net.run(d.dev, false); err != nil {
				return err
			}
		}
		d.net.entry(s.cache, position, s.from, o.Committed[i], state)
	}
	for page := o.Position / compute.PageSize; (page+1)*compute.PageSize <= s.at; page++ {
		last := append([]float32(nil), o.Hidden[0].Row((page+1)*compute.PageSize-1-o.Position)...)
		if err := s.cache.SetState(border{}, page, last); err != nil {
			return err
		}
	}
	s.state = append(s.state[:0], o.Hidden[0].Row(n-1)...)
	return nil
}
