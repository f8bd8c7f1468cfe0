package cascade

import (
	"errors"
	"math"

	"surmise/drafter"
)

// seq is a sequence of both parts, with the copy of the round under way.
type seq struct {
	d             *Drafter
	copies, model drafter.Seq

	copy  []int32 // what the copying part proposed
	match int
	first int // position of its first token
}

func (s *seq) Drafter() drafter.Drafter { return s.d }

// Position is the parts' position; −1 if they differ, which is an error of one.
func (s *seq) Position() int {
	if s.copies.Position() != s.model.Position() {
		return -1
	}
	return s.model.Position()
}

// Owed is what the model owes.
func (s *seq) Owed() int {
	if o, ok := s.model.(drafter.Owing); ok {
		return o.Owed()
	}
	return 0
}

// Fork forks both parts.
func (s *seq) Fork() (drafter.Seq, error) {
	c, err := s.copies.Fork()
	if err != nil {
		return nil, err
	}
	m, err := s.model.Fork()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &seq{d: s.d, copies: c, model: m}, nil
}

// Close closes both parts.
func (s *seq) Close() error { return errors.Join(s.copies.Close(), s.model.Close()) }

// remember keeps the copy to compare it with the stream.
func (s *seq) remember(r, a *drafter.Row) {
	s.copy = append(s.copy[:0], a.Proposal...)
	s.match, s.first = a.Match, r.Position+len(r.Known)
}

// matchBins are lengths of match, two to an octave.
const matchBins = 14

func matchBin(match int) int {
	return min(int(2*math.Log2(float64(max(match, 1)))), matchBins-1)
}

// average is a mean that fades.
type average struct{ sum, n float64 }

const averageMemory = 0.98

func (a *average) learn(x float64) {
	a.sum = a.sum*averageMemory + x
	a.n = a.n*averageMemory + 1
}

// mean counts a prior as much as three observations.
func (a *average) mean(prior float64) float64 { return (a.sum + 3*prior) / (a.n + 3) }

// Before there is evidence, a match is expected to go on for a third of its
// length, and a model to be right for one token and a half.
func copyPrior(match int) float64 { return float64(match) / 3 }

const modelPrior = 1.5

// prefersCopy tells whether the copy is expected to bring at least as many
// tokens as the model, which may propose so many.
func (d *Drafter) prefersCopy(a *drafter.Row, budget int) bool {
	gain := min(d.copied[matchBin(a.Match)].mean(copyPrior(a.Match)), float64(len(a.Proposal)))
	return gain >= min(d.modeled.mean(modelPrior), float64(budget))
}

// learn compares the round's copy with the stream and counts what the model's
// proposal brought.
func (d *Drafter) learn(s *seq, o *drafter.Outcome) {
	if len(s.copy) > 0 {
		right := 0
		for i, t := range s.copy {
			said, known := said(o, s.first+i)
			if !known {
				break
			}
			if said != t {
				d.copied[matchBin(s.match)].learn(float64(right))
				right = -1
				break
			}
			right++
		}
		if right > 0 { // right as far as the stream is known
			d.copied[matchBin(s.match)].learn(float64(right))
		}
	}
	if len(o.Proposed) > 0 && !prefix(o.Proposed, s.copy) {
		d.modeled.learn(float64(o.Accepted))
	}
	s.copy = s.copy[:0]
}

// said is the token the round left at a position, if it got so far.
func said(o *drafter.Outcome, position int) (int32, bool) {
	switch at := position - o.Position; {
	case at < len(o.Committed):
		return o.Committed[at], true
	case at == len(o.Committed) && o.Pending >= 0:
		return o.Pending, true
	}
	return 0, false
}

// prefix tells whether p is how s begins.
func prefix(p, s []int32) bool {
	if len(p) > len(s) {
		return false
	}
	for i := range p {
		if p[i] != s[i] {
			return false
		}
	}
	return true
}
