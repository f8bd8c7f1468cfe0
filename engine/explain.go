package engine

import (
	"context"
	"fmt"
	"maps"
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
	// TargetLayers is how many layers the target has: the input layer of that number
	// is the output of its final norm.
	TargetLayers int `json:"target_layers"`
	// Trial is what the automatic width did behind the prompt.
	Trial   Engagement `json:"trial"`
	Outlook []Outlook  `json:"outlook"`
}

// Engagement is how often the drafter drafted, and why not.
type Engagement struct {
	// Rounds are those that could have had a proposal, Drafts those that had one.
	Rounds int64 `json:"rounds"`
	Drafts int64 `json:"drafts"`
	// Declined counts the others by reason.
	Declined map[drafter.Reason]int64 `json:"declined,omitempty"`
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

// The measurements of Explain: tokens decoded with a fixed width to time drafting,
// and with the automatic one to see what it does.
const (
	explainStep  = 48
	explainWidth = 4
	explainTrial = 128
)

// Explain probes and measures: it decodes some tokens behind the prompt with four
// proposals a round and some with the automatic width, so that it takes about a
// second on a small model. forward is the measured cost of forwards.
func (in *Instance) Explain(ctx context.Context, prompt []int32, forward map[int]time.Duration, clock func() time.Time) (*Explanation, error) {
	if in.Drafter == nil {
		return nil, fmt.Errorf("explain: no drafter: choose one with a draft kind or a draft model")
	}
	x := &Explanation{Contract: in.Contract(), Probe: in.Probe, Forward: forward, TargetLayers: in.Model.Spec().Layers}
	if len(prompt) == 0 {
		rng := rand.New(rand.NewPCG(3, 4))
		for range min(16, in.Model.Spec().Context/2) {
			prompt = append(prompt, int32(rng.IntN(in.Model.Spec().Vocab)))
		}
	}
	step, _, err := in.drafts(ctx, prompt, explainStep, drafter.Fixed(explainWidth), clock)
	if err != nil {
		return nil, err
	}
	if x.Drafted = step.Proposed; step.Proposed > 0 {
		x.DraftStep = step.Draft / time.Duration(step.Proposed)
	}
	trial, declines, err := in.drafts(ctx, prompt, explainTrial, drafter.NewAuto(drafter.NewCosts(forward), drafter.MaxWidth), clock)
	if err != nil {
		return nil, err
	}
	// The rounds' limit is the measurement's, not the drafter's.
	delete(declines, drafter.NothingLeft)
	x.Trial = Engagement{Rounds: trial.Drafts, Drafts: trial.Drafts, Declined: declines}
	for _, n := range declines {
		x.Trial.Rounds += n
	}
	x.outlook()
	return x, nil
}

// drafts decodes some tokens and gives what drafting did, and why it did not.
func (in *Instance) drafts(ctx context.Context, prompt []int32, tokens int, width drafter.Width, clock func() time.Time) (drafter.Tally, map[drafter.Reason]int64, error) {
	kind := in.Drafter.Contract().Kind
	counters := drafter.NewCounters(in.Drafter.Contract())
	e := New(in.Model, in.Tokenizer, Options{Clock: clock, Width: width, Counters: counters})
	p := sampler.Default()
	seed := uint64(1)
	p.Seed, p.MaxNewTokens, p.IgnoreEOS = &seed, tokens, true
	err := e.Run(ctx, Request{Prompt: prompt, Params: p, Drafter: in.Drafter, Fresh: true, Emit: func(Event) {}})
	if err != nil {
		return drafter.Tally{}, nil, fmt.Errorf("explain: %w", err)
	}
	declines := counters.Declines(kind)
	maps.DeleteFunc(declines, func(_ drafter.Reason, n int64) bool { return n == 0 })
	return counters.Tally(kind), declines, nil
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
