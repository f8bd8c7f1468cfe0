package promptlookup

import (
	"context"
	"fmt"
	"strconv"

	"surmise/drafter"
	"surmise/model"
)

// Name is the kind's name.
const Name = drafter.Lookup

// NoMatch declines a round: no suffix of the sequence of at least the minimum
// length occurred before.
const NoMatch drafter.Reason = "no_match"

// Options configure the kind.
type Options struct {
	// MinMatch is the fewest tokens that must match, 1..64; 0 means 2.
	MinMatch int
	// MaxWidth caps proposals, 1..64; 0 means 64.
	MaxWidth int
}

const (
	defaultMinMatch = 2
	maxMinMatch     = 64
	// predictionContext is how much of the prompt's end is put before a
	// prediction, so that the start of the output matches it.
	predictionContext = 16
	// separator parts texts in an index. It is no token id, so nothing matches
	// across it, and a proposal stops before it.
	separator = -1
)

// Contract is the kind's contract.
func Contract() drafter.Contract {
	return drafter.Contract{
		Kind:     Name,
		Summary:  "copies what followed the longest suffix match in prompt and output",
		Greedy:   drafter.Stream,
		Sampling: drafter.Stream,
		Features: drafter.AllFeatures(),
		Proposes: drafter.ByCopy,
		Inputs:   drafter.Inputs{Tokens: true},
		Engagement: append([]drafter.Rule{
			{Name: string(NoMatch), When: "fewer than min-match tokens at the end of the sequence occurred before", Why: "the text does not repeat itself here"},
		}, drafter.CommonRules()...),
		MaxWidth: drafter.MaxWidth,
	}
}

// Kind registers the drafter. Options of the configuration: "min-match" and
// "max-width".
func Kind() drafter.Kind {
	return drafter.Kind{Contract: Contract(), Options: settings.Names(), New: func(c drafter.Config) (drafter.Drafter, error) {
		if c.Checkpoint != nil {
			return nil, fmt.Errorf("draft kind %s takes no draft model, got %s", Name, c.Checkpoint.Path())
		}
		var o Options
		if err := settings.Read(c, Name, &o); err != nil {
			return nil, err
		}
		return New(o)
	}}
}

var settings = drafter.Settings[Options]{
	"min-match": func(o *Options, v string) (err error) {
		o.MinMatch, err = number("min-match", v, maxMinMatch)
		return err
	},
	"max-width": func(o *Options, v string) (err error) {
		o.MaxWidth, err = number("max-width", v, drafter.MaxWidth)
		return err
	},
}

// number reads an option from 1 to most.
func number(name, value string, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("option %s %q: want a number from 1 to %d", name, value, most)
	}
	return n, nil
}

// Drafter proposes copies. It implements drafter.Drafter and works with any
// target.
type Drafter struct{ opts Options }

// New makes the drafter.
func New(o Options) (*Drafter, error) {
	if o.MinMatch == 0 {
		o.MinMatch = defaultMinMatch
	}
	if o.MaxWidth == 0 {
		o.MaxWidth = drafter.MaxWidth
	}
	if o.MinMatch < 1 || o.MinMatch > maxMinMatch {
		return nil, fmt.Errorf("draft kind %s: min-match %d: want 1..%d", Name, o.MinMatch, maxMinMatch)
	}
	if o.MaxWidth < 1 || o.MaxWidth > drafter.MaxWidth {
		return nil, fmt.Errorf("draft kind %s: max-width %d: want 1..%d", Name, o.MaxWidth, drafter.MaxWidth)
	}
	return &Drafter{o}, nil
}

// Contract is the kind's contract with the configured width.
func (d *Drafter) Contract() drafter.Contract {
	c := Contract()
	c.MaxWidth = d.opts.MaxWidth
	return c
}

// Bind accepts every target.
func (d *Drafter) Bind(model.Target) error { return nil }

// Open indexes the tokens known so far and the prediction.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	if err := o.Check(Name, true); err != nil {
		return nil, err
	}
	s := &seq{drafter: d, index: NewIndex(), position: o.Cached}
	if len(o.Prediction) > 0 {
		s.index.Append(o.Tokens[max(0, len(o.Tokens)-predictionContext):]...)
		s.index.Append(o.Prediction...)
		s.index.Append(separator)
	}
	s.base = s.index.Len()
	s.index.Append(o.Tokens...)
	return s, nil
}

// Propose copies what followed the longest match, as far as the match is long:
// text that has agreed for m tokens is expected to agree for about m more.
func (d *Drafter) Propose(_ context.Context, rows []*drafter.Row) error {
	for _, r := range rows {
		s := r.Seq.(*seq)
		if r.Err = s.learn(r.Position, r.Known); r.Err != nil {
			continue
		}
		m := s.index.Match()
		r.Match = m.Len()
		width := min(r.Budget, d.opts.MaxWidth, m.Len())
		for len(r.Proposal) < width {
			token, next, ok := s.index.Next(m, d.opts.MinMatch)
			if !ok || token == separator {
				break
			}
			r.Proposal = append(r.Proposal, token)
			m = next
		}
		if len(r.Proposal) == 0 {
			r.Decline = NoMatch
		}
	}
	return nil
}

// Observe appends what the round added to the sequence.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	for _, o := range outcomes {
		s := o.Seq.(*seq)
		if o.Position != s.position {
			o.Err = fmt.Errorf("%s: outcome of a round at position %d, expected one at %d", Name, o.Position, s.position)
			continue
		}
		if o.Err = s.learn(o.Position, o.Committed); o.Err != nil {
			continue
		}
		s.position = o.After()
		if o.Pending >= 0 {
			o.Err = s.learnOne(s.position, o.Pending)
		}
	}
	return nil
}

// Close has nothing to free.
func (d *Drafter) Close() error { return nil }

// seq is the index of one sequence.
type seq struct {
	drafter  *Drafter
	index    *Index
	base     int // where the sequence starts in the index
	position int
}

func (s *seq) Drafter() drafter.Drafter { return s.drafter }
func (s *seq) Position() int            { return s.position }
func (s *seq) Close() error             { return nil }

func (s *seq) Fork() (drafter.Seq, error) {
	c := *s
	c.index = s.index.Clone()
	return &c, nil
}

// learn adds tokens that stand at position from on, skipping those it has.
func (s *seq) learn(from int, tokens []int32) error {
	for i, t := range tokens {
		if err := s.learnOne(from+i, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *seq) learnOne(at int, token int32) error {
	switch have := s.index.Len() - s.base; {
	case at > have:
		return fmt.Errorf("%s: token at position %d, but positions from %d on were never told", Name, at, have)
	case at < have:
		if old := s.index.At(s.base + at); old != token {
			return fmt.Errorf("%s: token %d at position %d was told as %d before", Name, token, at, old)
		}
	default:
		s.index.Append(token)
	}
	return nil
}
