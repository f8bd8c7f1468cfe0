// Package draftertest has drafters for tests: one that knows the stream and
// errs where it is told to, and one that proposes at random. It also has the
// suite that any kind must pass.
package draftertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"surmise/drafter"
	"surmise/model"
)

// Oracle knows what the target will say and proposes it, wrong from a chosen
// place on. It implements drafter.Drafter.
type Oracle struct {
	// Streams are whole sequences, prompt and output; the one that begins with
	// the tokens of an Opening is used.
	Streams [][]int32
	// Right says how many proposals of a round shall be right, given the
	// position of the first; nil is all of them.
	Right func(position int) int
	// Layers are hidden states to ask for, and Check what to do with outcomes.
	Layers []int
	Check  func(*drafter.Outcome) error
	// FailPropose and FailObserve make the drafter fail from that call on; 0 is never.
	FailPropose, FailObserve int

	vocab             int
	proposes, observe int
}

// NothingKnown declines beyond the end of the stream.
const NothingKnown drafter.Reason = "nothing_known"

var errOracle = errors.New("the oracle is asked too much")

// Contract names the kind "oracle".
func (d *Oracle) Contract() drafter.Contract {
	return drafter.Contract{
		Kind: "oracle", Summary: "knows the stream", Greedy: drafter.Stream, Sampling: drafter.Stream,
		Features: drafter.AllFeatures(), Proposes: drafter.ByCopy, MaxWidth: drafter.MaxWidth,
		Inputs: drafter.Inputs{Tokens: true, Layers: d.Layers},
		Engagement: append([]drafter.Rule{
			{Name: string(NothingKnown), When: "the stream known ends here", Why: "nothing is known of what follows"},
		}, drafter.CommonRules()...),
	}
}

// Bind notes the vocabulary.
func (d *Oracle) Bind(t model.Target) error {
	d.vocab = t.Spec().Vocab
	return nil
}

// Open finds the stream.
func (d *Oracle) Open(o drafter.Opening) (drafter.Seq, error) {
	for _, s := range d.Streams {
		if len(s) >= len(o.Tokens) && equal(s[:len(o.Tokens)], o.Tokens) {
			return &oracleSeq{d, s, o.Cached}, nil
		}
	}
	return nil, errors.New("no stream begins with these tokens")
}

// Propose proposes what follows, wrong where it shall be.
func (d *Oracle) Propose(_ context.Context, rows []*drafter.Row) error {
	if d.proposes++; d.FailPropose > 0 && d.proposes >= d.FailPropose {
		return errOracle
	}
	for _, r := range rows {
		s := r.Seq.(*oracleSeq)
		if r.Position != s.position {
			return fmt.Errorf("oracle asked at position %d, is at %d", r.Position, s.position)
		}
		first := r.Position + len(r.Known)
		right := r.Budget
		if d.Right != nil {
			right = d.Right(first)
		}
		for i := 0; i < r.Budget && first+i < len(s.stream); i++ {
			token := s.stream[first+i]
			if i >= right {
				token = (token + 1) % int32(d.vocab)
			}
			r.Proposal = append(r.Proposal, token)
		}
		if len(r.Proposal) == 0 {
			r.Decline = NothingKnown
		}
	}
	return nil
}

// Observe follows the target and compares what it is told with the stream.
func (d *Oracle) Observe(outcomes []*drafter.Outcome) error {
	if d.observe++; d.FailObserve > 0 && d.observe >= d.FailObserve {
		return errOracle
	}
	for _, o := range outcomes {
		s := o.Seq.(*oracleSeq)
		if o.Position != s.position {
			return fmt.Errorf("oracle told of position %d, is at %d", o.Position, s.position)
		}
		s.position = o.After()
		told := append([]int32(nil), o.Committed...)
		if o.Pending >= 0 {
			told = append(told, o.Pending)
		}
		if end := o.Position + len(told); end > len(s.stream) || !equal(s.stream[o.Position:end], told) {
			return fmt.Errorf("oracle told of %v at %d, which is not the stream", told, o.Position)
		}
		if len(o.Hidden) != len(d.Layers) {
			return fmt.Errorf("oracle told of %d hidden layers, asked for %d", len(o.Hidden), len(d.Layers))
		}
		if d.Check != nil {
			o.Err = d.Check(o)
		}
	}
	return nil
}

// Close has nothing to free.
func (d *Oracle) Close() error { return nil }

type oracleSeq struct {
	oracle   *Oracle
	stream   []int32
	position int
}

func (s *oracleSeq) Drafter() drafter.Drafter { return s.oracle }
func (s *oracleSeq) Position() int            { return s.position }
func (s *oracleSeq) Close() error             { return nil }
func (s *oracleSeq) Fork() (drafter.Seq, error) {
	c := *s
	return &c, nil
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Random proposes tokens at random, some of them no tokens at all. It
// implements drafter.Drafter.
type Random struct {
	Rand  *rand.Rand
	vocab int
}

// Contract names the kind "random".
func (d *Random) Contract() drafter.Contract {
	return drafter.Contract{
		Kind: "random", Summary: "proposes at random", Greedy: drafter.Stream, Sampling: drafter.Stream,
		Features: drafter.AllFeatures(), Proposes: drafter.ByCopy, MaxWidth: drafter.MaxWidth,
		Inputs: drafter.Inputs{Tokens: true},
		Engagement: append([]drafter.Rule{
			{Name: string(NothingKnown), When: "it pleases", Why: "it proposes at random"},
		}, drafter.CommonRules()...),
	}
}

// Bind notes the vocabulary.
func (d *Random) Bind(t model.Target) error {
	d.vocab = t.Spec().Vocab
	return nil
}

// Open starts at the cached position.
func (d *Random) Open(o drafter.Opening) (drafter.Seq, error) {
	return &randomSeq{d, o.Cached}, nil
}

// Propose rolls dice.
func (d *Random) Propose(_ context.Context, rows []*drafter.Row) error {
	for _, r := range rows {
		for range d.Rand.IntN(r.Budget + 1) {
			r.Proposal = append(r.Proposal, d.Rand.Int32N(int32(d.vocab)+2)-1)
		}
		if len(r.Proposal) == 0 {
			r.Decline = NothingKnown
		}
	}
	return nil
}

// Observe follows the target.
func (d *Random) Observe(outcomes []*drafter.Outcome) error {
	for _, o := range outcomes {
		o.Seq.(*randomSeq).position = o.After()
	}
	return nil
}

// Close has nothing to free.
func (d *Random) Close() error { return nil }

type randomSeq struct {
	random   *Random
	position int
}

func (s *randomSeq) Drafter() drafter.Drafter { return s.random }
func (s *randomSeq) Position() int            { return s.position }
func (s *randomSeq) Close() error             { return nil }
func (s *randomSeq) Fork() (drafter.Seq, error) {
	c := *s
	return &c, nil
}
