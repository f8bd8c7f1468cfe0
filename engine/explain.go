package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"surmise/drafter"
	"surmise/sampler"
)

// Explanation says what speculation with an instance's drafter promises, costs
// and can bring.
type Explanation struct {
	Contract drafter.Contract `json:"contract"`
	Probe    Probe            `json:"width_probe"`
	// Forward is what a forward takes by its number of tokens.
	Forward map[int]time.Duration `json:"-"`
	// DraftStep is what drafting takes for every token proposed, and Drafted how
	// many were proposed to measure it; both 0 if the drafter declined.
	DraftStep time.Duration `json:"draft_step_ns"`
	Drafted   int64         `json:"drafted"`
	// Declined counts the measurement's rounds without a proposal, by reason.
	Declined map[drafter.Reason]int64 `json:"declined,omitempty"`
	Outlook  []Outlook                `json:"outlook"`
}

// Outlook is what the automatic width chooses if every proposed token survives
// with the same chance.
type Outlook struct {
	Acceptance float64 `json:"acceptance"`
	// Width is the number of proposals, 0 for plain decoding, and Speedup the
	// gain in tokens per second over it.
	Width   int     `json:"width"`
	Speedup float64 `json:"speedup"`
}

const (
	explainTokens = 48
	explainWidth  = 4
)

// Explain probes and measures: it decodes some tokens behind the prompt with four
// proposals a round, so that it takes about a second on a small model. forward is
// the measured cost of forwards.
func (in *Instance) Explain(ctx context.Context, prompt []int32, forward map[int]time.Duration, clock func() time.Time) (*Explanation, error) {
	if in.Drafter == nil {
		return nil, fmt.Errorf("explain: no drafter: choose one with a draft kind or a draft model")
	}
	x := &Explanation{Contract: in.Contract(), Probe: in.Probe, Forward: forward}
	if len(prompt) == 0 {
		rng := rand.New(rand.NewPCG(3, 4))
		for range min(16, in.Model.Spec().Context/2) {
			prompt = append(prompt, int32(rng.IntN(in.Model.Spec().Vocab)))
		}
	}
	if err := in.measureDraft(ctx, x, prompt, clock); err != nil {
		return nil, err
	}
	x.outlook()
	return x, nil
}

// measureDraft decodes a few tokens and notes what drafting took.
func (in *Instance) measureDraft(ctx context.Context, x *Explanation, prompt []int32, clock func() time.Time) error {
	counters := drafter.NewCounters(in.Drafter.Contract())
	e := New(in.Model, in.Tokenizer, Options{Clock: clock, Width: drafter.Fixed(explainWidth), Counters: counters})
	p := sampler.Default()
	seed := uint64(1)
	p.Seed, p.MaxNewTokens, p.IgnoreEOS = &seed, explainTokens, true
	err := e.Run(ctx, Request{Prompt: prompt, Params: p, Drafter: in.Drafter, Emit: func(Event) {}})
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	kind := in.Drafter.Contract().Kind
	t := counters.Tally(kind)
	x.Drafted, x.Declined = t.Proposed, map[drafter.Reason]int64{}
	for reason, n := range counters.Declines(kind) {
		if n > 0 {
			x.Declined[reason] = n
		}
	}
	if t.Proposed > 0 {
		x.DraftStep = t.Draft / time.Duration(t.Proposed)
	}
	return nil
}

// outlook finds the best width for a range of chances.
func (x *Explanation) outlook() {
	costs := drafter.NewCosts(x.Forward)
	for _, a := range []float64{0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95} {
		o := Outlook{Acceptance: a, Speedup: 1}
		tokens, survives := 1.0, 1.0
		for k := 1; k <= x.Contract.MaxWidth; k++ {
			survives *= a
			tokens += survives
			took := costs.Verify(1+k) + float64(k)*x.DraftStep.Seconds()
			if s := tokens * costs.Verify(1) / took; s > o.Speedup {
				o.Width, o.Speedup = k, s
			}
		}
		x.Outlook = append(x.Outlook, o)
	}
}
