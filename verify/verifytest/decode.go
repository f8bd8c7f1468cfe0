package verifytest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/kvcache"
	"surmise/model"
	"surmise/sampler"
	"surmise/verify"
)

// TB is what the helpers need of a test.
type TB interface {
	Errorf(format string, args ...any)
	FailNow()
	Helper()
}

// Chain draws argmax(logits/T + noise(seed, position, token)), as a sampler
// does, after taking Penalty off every token of the history once per
// occurrence.
type Chain struct {
	Seed        uint64
	Temperature float32 // 0 is greedy
	Penalty     float32
	history     []int32
}

// ArgmaxOnly tells that raw logits decide.
func (c *Chain) ArgmaxOnly() bool { return c.Temperature == 0 && c.Penalty == 0 }

// Sample draws the token at the current position.
func (c *Chain) Sample(logits []float32) (sampler.Draw, error) {
	z := slices.Clone(logits)
	for _, t := range c.history {
		z[t] -= c.Penalty
	}
	if c.Temperature > 0 {
		for i := range z {
			z[i] = z[i]/c.Temperature + 3*unit(mix(mix(c.Seed, uint64(len(c.history))), uint64(i)))
		}
	}
	best, ok := argmax(z)
	if !ok {
		return sampler.Draw{}, verify.ErrNaN
	}
	return sampler.Draw{Token: best}, nil
}

// Accept appends to the history.
func (c *Chain) Accept(token int32) { c.history = append(c.history, token) }

// Script is a sequence to decode.
type Script struct {
	Prompt []int32
	New    int // tokens to emit at most
	Chain  verify.Chain
	// Drafter opens a drafter; nil decodes plainly.
	Drafter drafter.Drafter
	// Width is the budget of a round; nil is drafter.MaxWidth.
	Width func(round int) int
	// Chunk cuts the prompt; 0 takes it whole.
	Chunk int
	// Stop ends the sequence after the given output.
	Stop func(output []int32) bool

	// Output and Err are the results; Tally counts the rounds.
	Output []int32
	Err    error
	Tally  drafter.Tally

	seq   *kvcache.Seq
	draft drafter.Seq
	ask   drafter.Row
	row   verify.Row
	todo  []int32
	done  bool
}

// Decode runs scripts to their ends in one batch and checks after every round
// that each cache holds everything but the last token and that drafters are
// where the target is.
func Decode(t TB, target model.Target, scripts ...*Script) {
	t.Helper()
	v := verify.New(target, nil)
	for _, s := range scripts {
		s.open(t, target)
	}
	for round := 0; ; round++ {
		var rows []*verify.Row
		var asks []*drafter.Row
		for _, s := range scripts {
			if s.done {
				continue
			}
			if s.prepare(target, round) {
				asks = append(asks, &s.ask)
			}
			rows = append(rows, &s.row)
		}
		if len(rows) == 0 {
			return
		}
		drafter.Propose(context.Background(), asks)
		for _, s := range scripts {
			if !s.done {
				s.row.Proposal = nil
				if s.ask.Seq != nil {
					require.NoError(t, s.ask.Err)
					require.LessOrEqual(t, len(s.ask.Proposal), max(s.ask.Budget, 0))
					if len(s.ask.Proposal) == 0 {
						require.True(t, s.draft.Drafter().Contract().Allows(s.ask.Decline), "decline %q is not in the contract", s.ask.Decline)
					}
					s.row.Proposal = s.ask.Proposal
				}
			}
		}
		_ = v.Round(context.Background(), rows)
		for _, s := range scripts {
			if !s.done {
				s.settle(t)
			}
		}
	}
}

func (s *Script) open(t TB, target model.Target) {
	s.seq = target.Cache().Open()
	s.todo = s.Prompt
	if s.Drafter != nil {
		var err error
		s.draft, err = s.Drafter.Open(drafter.Opening{Tokens: s.Prompt, Pages: s.seq})
		require.NoError(t, err)
	}
	s.row = verify.Row{Seq: s.seq, Draft: s.draft, Emit: func(k verify.Token) bool {
		s.Output = append(s.Output, k.Token)
		return len(s.Output) < s.New && (s.Stop == nil || !s.Stop(s.Output))
	}}
}

// prepare makes the row of the next round and tells whether to ask for a
// proposal.
func (s *Script) prepare(target model.Target, round int) bool {
	s.ask.Seq = nil
	s.row.Known, s.row.Chain = s.todo, s.Chain
	if s.Chunk > 0 && len(s.todo) > s.Chunk {
		s.row.Known, s.row.Chain = s.todo[:s.Chunk], nil
		return false
	}
	if s.draft == nil || len(s.Output) == 0 {
		return false
	}
	width := drafter.MaxWidth
	if s.Width != nil {
		width = s.Width(round)
	}
	s.ask.Seq, s.ask.Position, s.ask.Known = s.draft, s.seq.Len(), s.todo
	s.ask.Budget = min(width, s.New-len(s.Output)-1, target.Spec().Context-s.seq.Len()-len(s.todo))
	return true
}

func (s *Script) settle(t TB) {
	r := &s.row
	if r.Err != nil {
		s.Err, s.done = r.Err, true
		s.close(t)
		return
	}
	require.NoError(t, r.DraftErr)
	total := len(s.Prompt) + len(s.Output)
	if r.Chain == nil {
		s.todo = s.todo[len(r.Known):]
		require.Equal(t, len(s.Prompt)-len(s.todo), s.seq.Len())
	} else {
		require.Positive(t, r.Emitted, "a row that draws emits at least one token")
		require.Equal(t, total-1, s.seq.Len(), "the cache holds everything but the last token")
		require.Equal(t, append(slices.Clone(s.Prompt), s.Output...)[:total-1], s.seq.Tokens())
		require.Equal(t, s.Output[len(s.Output)-1], r.Pending)
		s.todo = []int32{r.Pending}
		s.Tally.Round(len(r.Proposal), r.Accepted)
	}
	if s.draft != nil {
		require.Equal(t, s.seq.Len(), s.draft.Position(), "the drafter is where the target is")
	}
	if r.Ended {
		s.done = true
		s.close(t)
	}
}

func (s *Script) close(t TB) {
	if s.draft != nil {
		require.NoError(t, s.draft.Close())
	}
	s.seq.Close()
}
