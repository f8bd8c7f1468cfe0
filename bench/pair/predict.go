package pair

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"surmise/bench"
	"surmise/bench/recording"
	"surmise/bench/replay"
	"surmise/drafter"
	"surmise/tokenizer"
)

// Widths are those that are looked at: fixed ones, and the automatic one.
var Widths = []string{"auto", "1", "2", "3", "4", "5", "6", "8", "10", "12", "16"}

// Prediction is what a width is expected to bring.
type Prediction struct {
	Config bench.Config
	Trials []bench.Trial
	// Summary has the expected speedup.
	Summary bench.Summary
}

// Replays predict from a recording.
type Replays struct {
	Recording *recording.Recording
	Tokenizer *tokenizer.Tokenizer
	Costs     *bench.Costs
	Warn      func(string)
}

// Calibrate fills in the parts of the costs that a recording shows: sampling,
// and what a round takes beside it. They are medians over the items.
func Calibrate(c *bench.Costs, r *recording.Recording) {
	var sample, round []float64
	for _, i := range r.Items {
		if n := float64(len(i.Tokens) - 1); n > 0 {
			sample, round = append(sample, i.SampleSeconds/n), append(round, i.RoundSeconds/n)
		}
	}
	c.SampleSeconds, c.RoundSeconds = bench.Quantile(sample, 0.5), bench.Quantile(round, 0.5)
}

// Predict replays one way of decoding; draft are its times, plain the trials of
// plain decoding, nil for plain decoding itself.
func (r *Replays) Predict(ctx context.Context, c bench.Config, d drafter.Drafter, draft *replay.DraftCosts, plain []bench.Trial) (p *Prediction, err error) {
	if draft == nil {
		draft = &replay.DraftCosts{}
	}
	player, err := replay.New(r.Recording, replay.Options{
		Config: c, Drafter: d, Tokenizer: r.Tokenizer, Costs: r.Costs, Draft: draft, Warn: r.Warn,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, player.Close()) }()
	p = &Prediction{Config: c}
	for _, i := range r.Recording.Items {
		t, err := player.Play(ctx, i)
		if err != nil {
			return nil, err
		}
		p.Trials = append(p.Trials, t)
	}
	p.Summary = bench.Summarize(p.Trials, plain, 1)
	return p, nil
}

// Best is the prediction with the greatest speedup among those with a fixed
// width; auto is that of the automatic one. Either may be nil.
func Best(all []*Prediction) (fixed, auto *Prediction) {
	for _, p := range all {
		switch {
		case p.Config.Width == "auto":
			auto = p
		case p.Summary.Speedup != nil && (fixed == nil || p.Summary.Speedup.Mean > fixed.Summary.Speedup.Mean):
			fixed = p
		}
	}
	return fixed, auto
}

// Comparison is a prediction beside its measurement.
type Comparison struct {
	Category  string           `json:"category,omitempty"` // empty for all
	Requests  int              `json:"requests"`
	Predicted float64          `json:"predicted_speedup"`
	Measured  *bench.Interval  `json:"measured_speedup"`
	Lengths   PredictedLengths `json:"mean_acceptance_length"`
}

// PredictedLengths are mean acceptance lengths.
type PredictedLengths struct {
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured"`
}

// Error is by how much the prediction is off, as a share of the measurement.
func (c *Comparison) Error() float64 {
	if c.Measured == nil || c.Measured.Mean == 0 {
		return math.NaN()
	}
	return c.Predicted/c.Measured.Mean - 1
}

// Compare puts predictions beside measurements, over all requests and by
// category.
func Compare(predicted, predictedPlain, measured, plain []bench.Trial) []Comparison {
	of := func(category string, all []bench.Trial) []bench.Trial {
		if category == "" {
			return all
		}
		return bench.InCategory(all, category)
	}
	var out []Comparison
	for _, c := range append([]string{""}, bench.Categories(measured)...) {
		p := bench.Summarize(of(c, predicted), predictedPlain, 1)
		m := bench.Summarize(of(c, measured), plain, 1)
		x := Comparison{Category: c, Requests: m.Requests, Measured: m.Speedup, Lengths: PredictedLengths{p.MeanAcceptanceLength, m.MeanAcceptanceLength}}
		if p.Speedup != nil {
			x.Predicted = p.Speedup.Mean
		}
		out = append(out, x)
	}
	return out
}

// Advice is what to use.
type Advice struct {
	// Flags are those of the other commands.
	Flags string `json:"flags"`
	// Why says it in words.
	Why string `json:"why"`
}

// paysFrom is the speedup from which a drafter is advised: less is lost in what
// a machine's mood does.
const paysFrom = 1.02

// Advise chooses among measured ways of decoding, or predicted ones where
// nothing was measured.
func Advise(speedups map[bench.Config]float64) Advice {
	var best bench.Config
	top := 0.0
	var configs []bench.Config
	for c := range speedups {
		configs = append(configs, c)
	}
	slices.SortFunc(configs, func(a, b bench.Config) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	for _, c := range configs {
		// The automatic width is preferred to a fixed one that is no better: it
		// goes on paying when the text or the load changes.
		s := speedups[c]
		if c.Width == "auto" {
			s *= 1.02
		}
		if s > top {
			best, top = c, s
		}
	}
	if top == 0 || speedups[best] < paysFrom {
		return Advice{Flags: "--draft-kind none", Why: "no drafter is expected to pay on these questions"}
	}
	flags := "--draft-kind " + best.Kind
	if best.Draft != "" {
		flags += " --draft-model " + best.Draft
	}
	if best.Width != "auto" {
		flags += " --draft-block-size " + best.Width
	}
	return Advice{Flags: flags, Why: fmt.Sprintf("%.2f times plain decoding on these questions", speedups[best])}
}
