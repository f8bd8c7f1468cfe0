package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/bench/recording"
	"surmise/drafter"
	"surmise/engine"
	"surmise/sampler"
	"surmise/tokenizer"
)

// Player replays one recording in one way of decoding. It is used by one
// goroutine at a time.
type Player struct {
	recording *recording.Recording
	target    *Target
	lane      *live.Lane
	text      bool // stops are text, so text is made
}

// Options say how a recording is replayed.
type Options struct {
	Config bench.Config
	// Drafter is nil for plain decoding. Drafters that borrow parts of the
	// target must be bound to the real one, others are bound by New to the
	// recorded one if Bind says so.
	Drafter drafter.Drafter
	// Tokenizer is that of the target. It is needed for parameters that are text
	// and for XTC, which looks at control tokens; nil otherwise.
	Tokenizer *tokenizer.Tokenizer
	// Costs predict times; nil for the recording's own.
	Costs *bench.Costs
	// Draft predicts the time of drafting. Without it drafting is timed, by Now;
	// with it Now is not looked at.
	Draft *DraftCosts
	// Now is the clock by which drafting is timed.
	Now  func() time.Time
	Warn func(string)
}

// Bindable is the recorded target, for drafters that read tokens only.
func Bindable(r *recording.Recording) (*Target, error) {
	return newTarget(&r.Header, nil, &clock{now: time.Now})
}

// New makes a player. Close it.
func New(r *recording.Recording, o Options) (*Player, error) {
	p, err := r.Header.Sampling()
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	p.Temperature = o.Config.Temperature
	if err := replayable(p, o.Drafter); err != nil {
		return nil, err
	}
	if o.Costs == nil {
		o.Costs = r.Header.Costs
	}
	watch := &clock{now: o.Now}
	var wrap func(drafter.Width) drafter.Width
	if o.Draft != nil {
		watch.now = func() time.Time { return time.Time{} }
		wrap = func(w drafter.Width) drafter.Width { return newPaced(w, o.Draft, watch, o.Drafter) }
	}
	target, err := newTarget(&r.Header, o.Costs, watch)
	if err != nil {
		return nil, err
	}
	out := &Player{recording: r, target: target, text: needsText(&p)}
	words := o.Tokenizer
	if !out.text {
		words = nil
	} else if words == nil {
		return nil, errors.Join(errors.New("replay: the recording's parameters need the target's tokenizer"), target.Close())
	}
	out.lane, err = live.NewLane(live.LaneSetup{
		Config: o.Config, Target: target, Tokenizer: words, Drafter: o.Drafter, Params: p,
		Costs: o.Costs.Table(), Now: watch.Now, Warn: o.Warn, Wrap: wrap,
	})
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	return out, nil
}

// replayable refuses parameters under which a drafter's proposals depend on more
// of the target than was recorded.
func replayable(p sampler.Params, d drafter.Drafter) error {
	if d == nil || p.Greedy() || d.Contract().Proposes != drafter.BySharedNoise {
		return nil
	}
	if p.Mirostat > 0 || p.AdaptiveTarget >= 0 {
		return errors.New("replay: mirostat and adaptive-p follow probabilities that are not recorded, and this drafter's proposals depend on them: " +
			"leave them out, or draft without noise")
	}
	return nil
}

// needsText tells that the tokenizer has a part in what is drawn, proposed or
// ended; without one a replay is several times faster.
func needsText(p *sampler.Params) bool {
	return p.XTCProbability > 0 || len(p.Stop) > 0 || len(p.StopRegex) > 0 || len(p.DRYSequenceBreakers) > 0 || len(p.LogitBias) > 0
}

// Close gives the target's cache back; the drafter is the caller's.
func (p *Player) Close() error { return p.target.Close() }

// Play replays an item. The trial's times are predictions. A stream that does
// not come out as recorded is an error.
func (p *Player) Play(ctx context.Context, i *recording.Item) (bench.Trial, error) {
	fail := func(err error) (bench.Trial, error) {
		return bench.Trial{}, fmt.Errorf("replay item %s turn %d as %s: %w", i.ID, i.Turn, p.lane.Config, err)
	}
	var hidden [][]float32
	if p.lane.Drafter != nil && len(p.lane.Drafter.Contract().Inputs.Layers) > 0 && i.Hidden != nil {
		var err error
		if hidden, err = p.recording.Hidden(i); err != nil {
			return fail(err)
		}
	}
	p.target.play(i, hidden)
	p.lane.Params.MaxNewTokens = i.Limit
	if i.Finish != string(engine.Stop) {
		p.lane.Params.MaxNewTokens = len(i.Tokens)
	}
	answers, err := live.Race(ctx, []*live.Lane{p.lane}, i.Prompt, i.Seed, 0)
	if err != nil {
		return fail(err)
	}
	a := &answers[0]
	if n := a.Finish.Timings.PredictedN; n != len(i.Tokens) {
		return fail(fmt.Errorf("%d tokens came out, but %d were recorded", n, len(i.Tokens)))
	}
	ids := a.IDs()
	if !slices.Equal(ids, i.Tokens[:min(len(ids), len(i.Tokens))]) {
		return fail(errors.New("other tokens came out than were recorded"))
	}
	results := live.Trials([]*live.Lane{p.lane}, answers, i.ID, i.Category, i.Turn)
	return results[0].Trial, nil
}
