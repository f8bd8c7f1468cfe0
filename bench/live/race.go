package live

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"surmise/bench"
	"surmise/engine"
)

// Segment is how many rounds a lane does before the next one has its turn: few
// enough that a machine's moods meet all lanes, and enough that the processor's
// caches are the lane's own most of the time. Rounds are counted, not tokens:
// else a lane whose rounds emit many would find its caches cold more often.
const Segment = 32

// runner is a lane within a race.
type runner struct {
	lane      *Lane
	collected *engine.Collector
	done      bool
}

// Race decodes a prompt on all lanes, which take turns from lane first on, and
// returns their answers. A request that fails is an error.
func Race(ctx context.Context, lanes []*Lane, prompt []int32, seed uint64, first int) ([]engine.Answer, error) {
	runners := make([]*runner, len(lanes))
	defer func() {
		for _, l := range lanes {
			l.Engine.Close()
		}
	}()
	for i, l := range lanes {
		r := &runner{lane: l, collected: engine.NewCollector(1)}
		runners[i] = r
		if err := l.Engine.Add(ctx, l.request(prompt, seed, r.collected.Add)); err != nil {
			return nil, err
		}
	}
	for left := len(runners); left > 0; {
		for i := range runners {
			r := runners[(first+i)%len(runners)]
			if r.done {
				continue
			}
			if err := r.segment(ctx); err != nil {
				return nil, err
			}
			if r.done {
				left--
			}
		}
	}
	var answers []engine.Answer
	for _, r := range runners {
		a := r.collected.Answers()[0]
		if err := a.Finish.Err; err != nil {
			return nil, fmt.Errorf("%s: %w", r.lane.Config, err)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// segment lets the lane do some rounds.
func (r *runner) segment(ctx context.Context) error {
	r.lane.Watch.Start()
	defer r.lane.Watch.Stop()
	for range Segment {
		more, err := r.lane.Engine.Tick(ctx)
		if err != nil {
			return err
		}
		if !more {
			r.done = true
			return nil
		}
	}
	return nil
}

// Trials are the trials of the answers of a race; the first lane is what the
// others are compared with, unless it is the only one.
func Trials(lanes []*Lane, answers []engine.Answer, item, category string, turn int) []bench.Result {
	var out []bench.Result
	for i, l := range lanes {
		t := bench.TrialOf(item, category, turn, &answers[i])
		t.Declines = l.declines()
		if i > 0 {
			same := Same(&answers[0], &answers[i]) == nil
			t.Same = &same
		}
		out = append(out, bench.Result{Config: l.Config, Trial: t})
	}
	return out
}

// Same tells where an answer differs from another in text, tokens or end.
func Same(want, got *engine.Answer) error {
	a, b := want.IDs(), got.IDs()
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Errorf("token %d is %d, want %d", i, b[i], a[i])
		}
	}
	switch {
	case !slices.Equal(a, b):
		return fmt.Errorf("%d tokens, want %d", len(b), len(a))
	case want.Text != got.Text:
		return errors.New("the text differs")
	case want.Finish.Reason != got.Finish.Reason || want.Finish.Token != got.Finish.Token:
		return fmt.Errorf("finish %s (token %d), want %s (token %d)", got.Finish.Reason, got.Finish.Token, want.Finish.Reason, want.Finish.Token)
	}
	return nil
}
