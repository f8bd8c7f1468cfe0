package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"surmise/bench"
	"surmise/bench/journal"
	"surmise/bench/live"
	"surmise/bench/prompts"
	"surmise/bench/report"
	"surmise/engine"
	"surmise/sampler"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	model    modelFlags
	sampling samplingFlags
	data     dataFlags
	drafts   draftFlags
	output   outputFlags
	clock    clockFlags
	journal  string
	curve    time.Duration
}

// perRequest are parameters that experiments do not offer: they decode one
// sample of every request, and report no log probabilities.
var perRequest = []string{
	"n", "best_of", "best_of_by", "beams", "length_penalty", "beam_groups", "diversity_penalty",
	"logprobs", "top_logprobs", "logprobs_mode", "custom_params", "json_schema", "regex", "ebnf",
}

// benchBudget bounds the cache of experiments, in which many sequences are
// under way at once. Memory is taken when it is used.
const benchBudget = 4 << 30

func (a *app) benchCommand() *cobra.Command {
	f := new(benchFlags)
	cmd := &cobra.Command{
		Use:   "bench [--model PATH] [--draft-kind KIND]...",
		Short: "Measure drafters against plain decoding",
		Long: "Measure drafters against plain decoding on the same questions. All ways of decoding take turns within one\n" +
			"process, some rounds each, so that ratios hold on a machine that is busy with other things. Every stream is\n" +
			"compared with that of plain decoding, byte for byte.",
		Example: "  surmise bench -m model.gguf --draft-kind prompt-lookup --limit 24 --html report.html\n" +
			"  surmise bench -m model.gguf --draft-model draft.gguf --draft-block-size auto,2,4,8 --temperatures 0,0.8\n" +
			"  surmise bench -m model.gguf --data spec_bench.jsonl --out run.jsonl   # goes on where it was interrupted",
		Args: noArgs,
	}
	f.clock.add(cmd)
	err := a.addExperiment(cmd, &f.model, &f.sampling, &f.data)
	a.addDrafts(cmd, &f.drafts)
	f.output.add(cmd)
	cmd.Flags().StringVar(&f.journal, "out", "", "keep every finished question in this file, and go on from it")
	cmd.Flags().DurationVar(&f.curve, "curve-time", 8*time.Second, "time to measure forwards by number of rows; 0 leaves it out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err != nil {
			return err
		}
		return a.bench(cmd, f)
	}
	return cmd
}

// addExperiment gives a command the flags of loading, sampling and questions.
func (a *app) addExperiment(cmd *cobra.Command, m *modelFlags, s *samplingFlags, d *dataFlags) error {
	m.addLoading(cmd)
	cmd.Flags().IntVar(&m.setup.Context, "ctx", 0, "positions a sequence may have; 0 is what the model was trained for")
	d.add(cmd)
	return a.addSampling(cmd, s, sampler.ProfileGenerate, perRequest...)
}

func (a *app) bench(cmd *cobra.Command, f *benchFlags) error {
	if err := a.finishExperiment(cmd, &f.model, &f.sampling); err != nil {
		return err
	}
	if err := f.clock.finish(a, &f.model); err != nil {
		return err
	}
	if err := f.drafts.check(max(f.sampling.params.Temperature, 0)); err != nil {
		return err
	}
	contenders, err := a.contenders(cmd, &f.drafts, &f.model)
	if err != nil {
		return err
	}
	set, err := f.data.read()
	if err != nil {
		return err
	}
	if err := errors.Join(f.output.check(), checkOut(f.journal)); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	run := &benchRun{app: a, flags: f, in: in, set: set}
	err = run.run(ctx, cmd, contenders)
	return errors.Join(err, run.close())
}

// finishExperiment checks models and parameters; the seed is 0 unless one is
// given, so that runs can be compared.
func (a *app) finishExperiment(cmd *cobra.Command, m *modelFlags, s *samplingFlags) error {
	m.setup.Draft.Kind = bench.None
	if m.setup.KVBudget == 0 {
		m.setup.KVBudget = benchBudget
	}
	if err := a.finishModel(cmd, m); err != nil {
		return err
	}
	if err := s.params.Validate(); err != nil {
		return usage(err)
	}
	if n := s.params.MaxNewTokens; n == 0 || n == 1 {
		return usage(fmt.Errorf("max_new_tokens: %d is not valid: want 2 or more, since what is measured comes after the first token, or -1 for the rest of the context", n))
	}
	s.params.FixSeed(func() uint64 { return 0 })
	return nil
}

// benchRun is a run of bench.
type benchRun struct {
	app   *app
	flags *benchFlags
	in    *engine.Instance
	set   prompts.Set

	drafts  []*engine.Draft
	about   bench.About
	gather  bench.Gather
	journal *journal.Journal
	done    map[string]bool
}

func (r *benchRun) close() error {
	var errs []error
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
	}
	for _, d := range r.drafts {
		errs = append(errs, d.Close())
	}
	return errors.Join(append(errs, r.in.Close())...)
}

func (r *benchRun) run(ctx context.Context, cmd *cobra.Command, contenders []contender) error {
	f := r.flags
	curves, err := r.app.measureCurves(ctx, r.in, f.curve)
	if err != nil {
		return err
	}
	p := f.sampling.params
	x := &live.Experiment{
		Encoder: prompts.Encoder{Tokenizer: r.in.Tokenizer, Raw: f.data.raw},
		Context: r.in.Model.Spec().Context, MaxNew: p.MaxNewTokens, Seed: *p.Seed,
	}
	for _, t := range f.drafts.temperatures {
		lanes, err := r.lanes(contenders, t, curves)
		if err != nil {
			return err
		}
		x.Groups = append(x.Groups, lanes)
	}
	if err := r.describe(cmd, x.Encoder.Chat(), curves); err != nil {
		return err
	}
	if err := r.openJournal(); err != nil {
		return err
	}
	failed := r.questions(ctx, x)
	if len(r.gather.Series) == 0 {
		return errors.Join(failed, errors.New("no question was answered"))
	}
	result := report.New(r.about, &r.gather)
	if err := r.app.write(result, &f.output); err != nil {
		return errors.Join(failed, err)
	}
	if n := result.Different(); n > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d requests had other bytes than plain decoding", n))
	}
	return failed
}

// lanes are those of all ways of decoding at a temperature.
func (r *benchRun) lanes(contenders []contender, temperature float64, curves *bench.Costs) ([]*live.Lane, error) {
	f := &r.flags.drafts
	plain := bench.Config{Kind: bench.None, Temperature: temperature}
	var ways []way
	for n, c := range f.ways(contenders, temperature)[1:] {
		ways = append(ways, way{c, contenders[n/len(f.widths)].setup})
	}
	lanes, drafts, err := r.app.lanes(r.in, plain, ways, r.flags.sampling.params, curves)
	r.drafts = append(r.drafts, drafts...)
	return lanes, err
}

// way is a way of decoding with the setup of its drafter.
type way struct {
	config bench.Config
	draft  engine.DraftSetup
}

// lanes makes the lanes of plain decoding and of ways with a drafter. The
// drafters are to be closed also after an error.
func (a *app) lanes(in *engine.Instance, plain bench.Config, ways []way, p sampler.Params, curves *bench.Costs) (lanes []*live.Lane, drafts []*engine.Draft, err error) {
	s := live.LaneSetup{
		Config: plain, Target: in.Model, Tokenizer: in.Tokenizer, Params: p, Costs: curves.Table(),
		Now: a.now, Warn: a.warn, Reference: sampler.ReferenceFromEnv(a.getenv),
	}
	l, err := live.NewLane(s)
	if err != nil {
		return nil, nil, err
	}
	lanes = append(lanes, l)
	for _, w := range ways {
		d, err := engine.OpenDraft(a.kinds, w.draft, in.Basis(), a.warn)
		if err != nil {
			return lanes, drafts, fmt.Errorf("%s: %w", w.config, err)
		}
		drafts = append(drafts, d)
		s.Config, s.Drafter = w.config, d.Drafter
		if l, err = live.NewLane(s); err != nil {
			return lanes, drafts, err
		}
		lanes = append(lanes, l)
	}
	return lanes, drafts, nil
}

// describe fills in what the run is.
func (r *benchRun) describe(cmd *cobra.Command, chat bool, curves *bench.Costs) error {
	about, err := r.app.about(cmd, r.in, r.set, chat, r.flags.sampling.params)
	if err != nil {
		return err
	}
	about.Costs = curves
	seen := map[string]bool{}
	for _, d := range r.drafts {
		if d.Checkpoint != nil && !seen[d.Checkpoint.Hash()] {
			seen[d.Checkpoint.Hash()] = true
			about.Drafts = append(about.Drafts, bench.CheckpointOf(d.Checkpoint, nil))
		}
	}
	r.about = about
	return nil
}

// about describes an experiment on a model.
func (a *app) about(cmd *cobra.Command, in *engine.Instance, set prompts.Set, chat bool, p sampler.Params) (bench.About, error) {
	p.Temperature = 0
	params, err := json.Marshal(p)
	if err != nil {
		return bench.About{}, err
	}
	spec := in.Model.Spec()
	return bench.About{
		Format: bench.TrialsFormat, Version: 1, Command: cmd.Name(), Program: bench.Version(), Started: a.now().UTC().Truncate(time.Second),
		Flags: flagsOf(cmd), Machine: bench.ThisMachine(in.Device.Name()), Target: bench.CheckpointOf(in.Checkpoint, &spec),
		Data: set.Name, Items: len(set.Items), Chat: chat, KV: spec.KV.String(), Context: spec.Context, Params: params,
	}, nil
}

// openJournal opens the file of finished questions, if there is to be one.
func (r *benchRun) openJournal() error {
	r.done = map[string]bool{}
	if r.flags.journal == "" {
		return nil
	}
	var err error
	r.journal, err = journal.Open(r.flags.journal, r.about, func(line []byte) error {
		var have bench.About
		if err := json.Unmarshal(line, &have); err != nil {
			return err
		}
		if err := r.about.Same(have); err != nil {
			return err
		}
		if have.Costs != nil {
			r.about.Costs = have.Costs
		}
		return nil
	}, func(data []byte) error {
		var line bench.Line
		if err := json.Unmarshal(data, &line); err != nil {
			return err
		}
		r.done[line.Item] = true
		return r.gather.Add(line)
	})
	return err
}

// questions decodes what is not done yet. An interruption keeps what is done.
func (r *benchRun) questions(ctx context.Context, x *live.Experiment) error {
	bar := r.app.progress(len(r.set.Items), "questions")
	defer bar.end()
	for _, q := range r.set.Items {
		if !r.done[q.ID] {
			line, err := x.Run(ctx, q)
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			if err == nil {
				err = r.gather.Add(line)
			}
			if err == nil && r.journal != nil {
				err = r.journal.Append(line)
			}
			if err != nil {
				return err
			}
		}
		bar.step()
	}
	return nil
}

// warn prints a warning.
func (a *app) warn(message string) { fmt.Fprintln(a.stderr, "warning:", message) }
