package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/bench/pair"
	"surmise/bench/prompts"
	"surmise/bench/recording"
	"surmise/bench/report"
	"surmise/engine"
)

// pairFlags are the flags of pair.
type pairFlags struct {
	model    modelFlags
	sampling samplingFlags
	data     dataFlags
	drafts   draftFlags
	clock    clockFlags
	output   outputFlags
	more     []string
	probe    int
	curve    time.Duration
	predict  bool
}

func (a *app) pairCommand() *cobra.Command {
	f := new(pairFlags)
	cmd := &cobra.Command{
		Use:   "pair [--model PATH] [--draft-model PATH]...",
		Short: "Find the drafter and the width for a target",
		Long: "Find the drafter and the width for a target: whether they fit, how much their distributions overlap, what\n" +
			"acceptance and speedup to expect for every width, and what was measured. Predictions come from the target's own\n" +
			"streams and from times measured on this machine; they never look at a measured speedup.",
		Example: "  surmise pair -m target --draft-model draft --draft-model mtp --limit 12\n" +
			"  surmise pair -m small --more-models big --draft-kind prompt-lookup --draft-model draft --predict-only",
		Args: noArgs,
	}
	f.clock.add(cmd)
	err := a.addExperiment(cmd, &f.model, &f.sampling, &f.data)
	a.addDrafts(cmd, &f.drafts)
	f.output.add(cmd)
	fl := cmd.Flags()
	_ = fl.Set("limit", "12")
	fl.Lookup("limit").DefValue = "12"
	fl.StringSliceVar(&f.more, "more-models", nil, "further targets; may be repeated")
	fl.IntVar(&f.probe, "probe-tokens", 768, "positions of the target's streams at which distributions are compared")
	fl.DurationVar(&f.curve, "curve-time", 16*time.Second, "time to measure forwards by number of rows")
	fl.BoolVar(&f.predict, "predict-only", false, "do not measure")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err != nil {
			return err
		}
		return a.pair(cmd, f)
	}
	return cmd
}

func (a *app) pair(cmd *cobra.Command, f *pairFlags) error {
	switch {
	case f.probe < 1:
		return usage(fmt.Errorf("--probe-tokens %d: want 1 or more", f.probe))
	case f.curve <= 0:
		return usage(fmt.Errorf("--curve-time %v: predictions need a time above 0", f.curve))
	case f.output.html != "" && (f.predict || len(f.more) > 0):
		return usage(errors.New("--html shows what was measured, of one target: leave out --predict-only and --more-models"))
	}
	if err := a.finishExperiment(cmd, &f.model, &f.sampling); err != nil {
		return err
	}
	if err := f.clock.finish(a, &f.model); err != nil {
		return err
	}
	if err := f.drafts.check(max(f.sampling.params.Temperature, 0)); err != nil {
		return err
	}
	if len(f.drafts.temperatures) > 1 {
		return usage(fmt.Errorf("--temperatures %v: pairs are found at one temperature", f.drafts.temperatures))
	}
	f.sampling.params.Temperature = f.drafts.temperatures[0]
	contenders, err := a.contenders(cmd, &f.drafts, &f.model)
	if err != nil {
		return err
	}
	set, err := f.data.read()
	if err != nil {
		return err
	}
	if err := f.output.check(); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	var reports []*pair.Report
	var failed error
	for n, path := range append([]string{""}, f.more...) {
		m := f.model
		if n > 0 {
			m.setup.FS, m.setup.Model = nil, path
		}
		r, err := a.pairTarget(ctx, cmd, f, &m, contenders, set)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if r == nil {
			return err
		}
		// What was predicted and measured is printed whatever failed after it.
		reports, failed = append(reports, r), err
		if !f.output.json {
			failed = errors.Join(failed, r.Table(a.stdout))
		}
		if failed != nil {
			break
		}
	}
	if f.output.json {
		failed = errors.Join(failed, pair.JSON(a.stdout, reports))
	}
	return failed
}

// pairRun is the work on one target.
type pairRun struct {
	app    *app
	flags  *pairFlags
	in     *engine.Instance
	set    prompts.Set
	ctx    context.Context
	costs  *bench.Costs
	replay *pair.Replays
	plain  *pair.Prediction

	report *pair.Report
	chosen []way
	from   []int // pair of each chosen way
	best   map[bench.Config]*pair.Prediction
}

func (a *app) pairTarget(ctx context.Context, cmd *cobra.Command, f *pairFlags, m *modelFlags, contenders []contender, set prompts.Set) (_ *pair.Report, err error) {
	in, err := a.open(m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	dir, err := os.MkdirTemp("", "surmise-pair-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &pairRun{app: a, flags: f, in: in, set: set, ctx: ctx, report: &pair.Report{}, best: map[bench.Config]*pair.Prediction{}}
	if r.report.About, err = a.about(cmd, in, set, r.encoder().Chat(), f.sampling.params); err != nil {
		return nil, err
	}
	if r.costs, err = a.measureCurves(ctx, in, f.curve); err != nil {
		return nil, err
	}
	r.report.About.Costs = r.costs
	fitting, err := r.fit(contenders)
	if err != nil {
		return nil, err
	}
	rec, err := r.record(filepath.Join(dir, "recording.jsonl"), fitting)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	if err := r.predict(rec, contenders); err != nil {
		return nil, err
	}
	return r.report, r.measure()
}

func (r *pairRun) encoder() prompts.Encoder {
	return prompts.Encoder{Tokenizer: r.in.Tokenizer, Raw: r.flags.data.raw}
}

// fit tells which drafters fit, and returns the layers that they read.
func (r *pairRun) fit(contenders []contender) (layers []int, err error) {
	for _, c := range contenders {
		p := pair.Pair{Kind: c.setup.Kind, Draft: c.name}
		d, err := engine.OpenDraft(r.app.kinds, c.setup, r.in.Basis(), r.app.warn)
		if err != nil {
			p.Unfit = oneLine(err)
		} else {
			for _, l := range d.Contract().Inputs.Layers {
				if !slices.Contains(layers, l) {
					layers = append(layers, l)
				}
			}
			if d.Checkpoint != nil {
				r.report.About.Drafts = append(r.report.About.Drafts, bench.CheckpointOf(d.Checkpoint, nil))
			}
			if err := d.Close(); err != nil {
				return nil, err
			}
		}
		r.report.Pairs = append(r.report.Pairs, p)
	}
	return layers, nil
}

// record records the target's streams with the layers that drafters read.
func (r *pairRun) record(path string, layers []int) (*recording.Recording, error) {
	a, p, spec := r.app, r.flags.sampling.params, r.in.Model.Spec()
	h, err := a.header(r.set, p)
	if err != nil {
		return nil, err
	}
	h.Source, h.Machine, h.Target = recording.Local, r.report.About.Machine, r.report.About.Target
	h.Spec, h.Layers, h.Chat, h.Costs = recording.SpecOf(spec, r.in.Engine.Env().EOS), layers, r.encoder().Chat(), r.costs
	w, err := recording.Create(path, h)
	if err != nil {
		return nil, err
	}
	observer := recording.NewObserver(layers)
	lane, err := live.NewLane(live.LaneSetup{
		Config: bench.Config{Kind: "recorder", Width: engine.Auto, Temperature: p.Temperature}, Target: r.in.Model, Tokenizer: r.in.Tokenizer,
		Drafter: observer, Params: p, Now: a.now, Warn: a.warn,
	})
	if err == nil {
		s := &recording.LocalSource{Lane: lane, Observer: observer, Encoder: r.encoder(), Context: spec.Context, MaxNew: p.MaxNewTokens, Seed: *p.Seed}
		err = a.each(r.ctx, r.set, func(q prompts.Item) error { return s.Record(r.ctx, w, q) })
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	rec, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	if len(rec.Items) == 0 {
		return nil, errors.Join(errors.New("no question fits the target's context"), rec.Close())
	}
	r.report.Skipped = len(rec.Skipped)
	return rec, nil
}

// predict probes and replays every drafter that fits.
func (r *pairRun) predict(rec *recording.Recording, contenders []contender) error {
	pair.Calibrate(r.costs, rec)
	r.replay = &pair.Replays{Recording: rec, Tokenizer: r.in.Tokenizer, Costs: r.costs, Warn: r.app.warn}
	plain, err := r.replay.Predict(r.ctx, bench.Config{Kind: bench.None, Temperature: r.flags.sampling.params.Temperature}, nil, nil, nil)
	if err != nil {
		return err
	}
	r.plain = plain
	bar := r.app.progress(len(contenders), "drafters")
	defer bar.end()
	for n, c := range contenders {
		if r.report.Pairs[n].Unfit == "" {
			if err := r.predictPair(n, c, rec); err != nil {
				return err
			}
		}
		bar.step()
	}
	return nil
}

func (r *pairRun) predictPair(n int, c contender, rec *recording.Recording) error {
	p := &r.report.Pairs[n]
	d, err := engine.OpenDraft(r.app.kinds, c.setup, r.in.Basis(), r.app.warn)
	if err != nil {
		return err
	}
	tokens := r.flags.probe
	probe, err := pair.Measure(r.ctx, r.in.Model, d.Drafter, rec.Items, pair.ProbeOptions{
		Tokens: tokens, PerItem: max(tokens/len(rec.Items), 16), Env: r.in.Engine.Env(),
		Params: r.flags.sampling.params, Costs: r.costs, Now: r.app.now,
	})
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	p.Probe = &probe
	var all []*pair.Prediction
	for _, w := range pair.Widths {
		config := bench.Config{Kind: c.setup.Kind, Draft: c.name, Width: w, Temperature: r.plain.Config.Temperature}
		// Anew for every width: a drafter may learn from stream to stream.
		d, err := engine.OpenDraft(r.app.kinds, c.setup, r.in.Basis(), r.app.warn)
		if err != nil {
			return err
		}
		x, err := r.replay.Predict(r.ctx, config, d.Drafter, &probe.Draft, r.plain.Trials)
		if err = errors.Join(err, d.Close()); err != nil {
			return err
		}
		all = append(all, x)
		p.Predicted = append(p.Predicted, pair.Width{Width: w, Summary: x.Summary})
	}
	fixed, auto := pair.Best(all)
	for _, x := range []*pair.Prediction{auto, fixed} {
		if x != nil {
			r.chosen, r.from = append(r.chosen, way{x.Config, c.setup}), append(r.from, n)
			r.best[x.Config] = x
		}
	}
	return nil
}

// measure decodes live with the chosen widths, unless it shall not, and advises.
func (r *pairRun) measure() error {
	speedups := map[bench.Config]float64{}
	for c, p := range r.best {
		if p.Summary.Speedup != nil {
			speedups[c] = p.Summary.Speedup.Mean
		}
	}
	if r.flags.predict {
		r.report.Advice = pair.Advise(speedups)
		return nil
	}
	p := r.flags.sampling.params
	lanes, drafts, err := r.app.lanes(r.in, r.plain.Config, r.chosen, p, r.costs)
	defer func() {
		for _, d := range drafts {
			_ = d.Close()
		}
	}()
	if err != nil {
		return err
	}
	x := &live.Experiment{
		Groups: [][]*live.Lane{lanes}, Encoder: r.encoder(), Context: r.in.Model.Spec().Context, MaxNew: p.MaxNewTokens, Seed: *p.Seed,
	}
	var g bench.Gather
	err = r.app.each(r.ctx, r.set, func(q prompts.Item) error {
		line, err := x.Run(r.ctx, q)
		if err != nil {
			return err
		}
		return g.Add(line)
	})
	if err != nil {
		return err
	}
	plain := g.Of(r.plain.Config).Trials
	for n, w := range r.chosen {
		found := pair.Compare(r.best[w.config].Trials, r.plain.Trials, g.Of(w.config).Trials, plain)
		to := &r.report.Pairs[r.from[n]]
		to.Compared = append(to.Compared, pair.Measured{Config: w.config, Comparisons: found})
		if m := found[0].Measured; m != nil {
			speedups[w.config] = m.Mean
		}
	}
	r.report.Advice = pair.Advise(speedups)
	result := report.New(r.report.About, &g)
	if r.flags.output.html != "" {
		if err := writeFile(r.flags.output.html, result.HTML); err != nil {
			return err
		}
	}
	if n := result.Different(); n > 0 {
		return fmt.Errorf("%d requests had other bytes than plain decoding", n)
	}
	return nil
}
