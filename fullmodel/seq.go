package fullmodel

import (
	"fmt"

	"surmise/drafter"
	"surmise/kvcache"
)

// seq is one sequence as the draft model sees it.
type seq struct {
	d        *Drafter
	cache    *kvcache.Seq
	text     []int32 // the sequence in the draft model's ids; −1 where it has none
	agreed   int     // leading tokens of the cache known to equal text
	position int     // of the target
	unread   int     // tokens of text before the first −1, plus one; 0 while there is none
}

func (s *seq) Drafter() drafter.Drafter { return s.d }

// Position is the target's position this state has taken in.
func (s *seq) Position() int { return s.position }

// Close publishes what the draft model has read, so that a later prompt with
// the same beginning need not be read again, and lets go of it.
func (s *seq) Close() error {
	if s.cache == nil {
		return nil
	}
	if err := s.cut(min(s.common(), len(s.text))); err == nil {
		s.cache.Publish()
	}
	s.cache.Close()
	s.cache = nil
	return nil
}

func (s *seq) Fork() (drafter.Seq, error) {
	c := *s
	var err error
	if c.cache, err = s.cache.Fork(); err != nil {
		return nil, fmt.Errorf("fork a %s sequence: %w", Name, err)
	}
	c.text = append([]int32(nil), s.text...)
	return &c, nil
}

// learn sets the text from a position on; later tokens are forgotten.
func (s *seq) learn(from int, tokens []int32) {
	for i, t := range tokens {
		id := int32(-1)
		if int(t) < len(s.d.vocab.toDraft) {
			id = s.d.vocab.toDraft[t]
		}
		at := from + i
		if at < len(s.text) && s.text[at] == id {
			continue
		}
		s.text = append(s.text[:at], id)
		s.agreed = min(s.agreed, at)
		if s.unread > at+1 {
			s.unread = 0
		}
		if id < 0 && s.unread == 0 {
			s.unread = at + 1
		}
	}
}

// readable is the number of leading tokens the draft model has ids for.
func (s *seq) readable() int {
	if s.unread > 0 {
		return s.unread - 1
	}
	return len(s.text)
}

// common is the number of leading tokens the cache shares with the text.
func (s *seq) common() int {
	cached := s.cache.Tokens()
	for s.agreed < min(len(cached), len(s.text)) && cached[s.agreed] == s.text[s.agreed] {
		s.agreed++
	}
	return s.agreed
}

// cut rolls the cache back to n tokens. Where a sliding window no longer allows
// that, the text is read anew.
func (s *seq) cut(n int) error {
	if n == s.cache.Len() {
		return nil
	}
	if err := s.cache.Truncate(n); err != nil {
		s.cache.Close()
		s.cache, s.agreed = s.d.model.Cache().Open(), 0
		return err
	}
	return nil
}

// Owed is how many tokens the draft model has not read, but for the last.
func (s *seq) Owed() int {
	if s.cache == nil {
		return 0
	}
	return max(0, len(s.text)-1-s.common())
}

// owed are the tokens the draft model must read before it can propose: at
// least the last one, whose successor is wanted.
func (s *seq) owed() []int32 {
	n := min(s.common(), len(s.text)-1)
	if s.cut(n) != nil {
		n = 0
	}
	return s.text[n:]
}
