package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"surmise/bench"
	"surmise/bench/journal"
	"surmise/bench/recording"
	"surmise/bench/replay"
	"surmise/bench/report"
	"surmise/checkpoint"
	"surmise/drafter"
	"surmise/engine"
	"surmise/tokenizer"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	model     modelFlags
	drafts    draftFlags
	output    outputFlags
	clock     clockFlags
	recording string
	shard     string
	journal   string
	merge     []string
}

func (a *app) replayCommand() *cobra.Command {
	f := new(replayFlags)
	cmd := &cobra.Command{
		Use:   "replay --recording FILE [--draft-kind KIND]...",
		Short: "Measure drafters against a recording, without the target",
		Long: "Measure drafters against a recording made by `surmise record`, for every width at once. Counts of a local\n" +
			"recording equal those of a live run exactly, for fixed widths. Times, speedups and the automatic width are\n" +
			"predictions from the forwards that were measured for the recording. Drafters that borrow the target's embedding\n" +
			"need the target's checkpoint: say --model.\n\n" +
			"A sweep can be spread over machines: --shard 0/4 … 3/4 with --out, then --merge with all the files.",
		Example: "  surmise replay --recording rec.jsonl --draft-kind prompt-lookup --draft-block-size auto,1,2,4,8,16\n" +
			"  surmise replay --recording rec.jsonl -m target --draft-model mtp --draft-block-size 1,2,3,4\n" +
			"  surmise replay --merge part-0.jsonl,part-1.jsonl --html sweep.html",
		Args: noArgs,
	}
	f.model.addLoading(cmd)
	f.clock.add(cmd)
	a.addDrafts(cmd, &f.drafts)
	f.output.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.recording, "recording", "", "the recording")
	fl.StringVar(&f.shard, "shard", "0/1", "which part of the work to do: i/n, i from 0 on")
	fl.StringVar(&f.journal, "out", "", "keep every finished item in this file, and go on from it")
	fl.StringSliceVar(&f.merge, "merge", nil, "put the results in these files together instead; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.replay(cmd, f) }
	return cmd
}

func (a *app) replay(cmd *cobra.Command, f *replayFlags) error {
	if len(f.merge) > 0 {
		if f.recording != "" || f.journal != "" {
			return usage(errors.New("--merge puts finished results together: leave out --recording and --out"))
		}
		return a.mergeReplays(f)
	}
	if f.recording == "" {
		return usage(errors.New("no recording: say --recording FILE"))
	}
	if err := f.clock.finish(a, &f.model); err != nil {
		return err
	}
	shard, shards, err := parseShard(f.shard)
	if err != nil {
		return usage(err)
	}
	if err := errors.Join(f.output.check(), checkOut(f.journal)); err != nil {
		return err
	}
	rec, err := recording.Open(f.recording)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	r := &replayRun{app: a, flags: f, rec: rec, shard: shard, shards: shards, done: map[bench.Config]map[string]bool{}}
	err = r.run(ctx, cmd)
	return errors.Join(err, r.close(), rec.Close())
}

// replayRun is a run of replay.
type replayRun struct {
	app           *app
	flags         *replayFlags
	rec           *recording.Recording
	shard, shards int

	in      *engine.Instance // nil when no target is needed
	text    *tokenizer.Tokenizer
	drafts  []bench.Checkpoint
	gather  bench.Gather
	journal *journal.Journal
	done    map[bench.Config]map[string]bool

	mu     sync.Mutex // of what follows, and of gather and drafts
	found  bool       // results in the journal
	tokens int
	spent  time.Duration
}

func (r *replayRun) close() error {
	var errs []error
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
	}
	if r.in != nil {
		errs = append(errs, r.in.Close())
	}
	return errors.Join(errs...)
}

func (r *replayRun) run(ctx context.Context, cmd *cobra.Command) error {
	a, f := r.app, r.flags
	p, err := r.rec.Header.Sampling()
	if err != nil {
		return err
	}
	if err := f.drafts.check(p.Temperature); err != nil {
		return err
	}
	if t := f.drafts.temperatures; len(t) != 1 || t[0] != p.Temperature {
		return usage(fmt.Errorf("--temperatures %v: the recording was made at %v", t, p.Temperature))
	}
	if err := r.openTarget(cmd); err != nil {
		return err
	}
	contenders, err := a.contenders(cmd, &f.drafts, &f.model)
	if err != nil {
		return err
	}
	if r.rec.Header.Source == recording.Server && p.Temperature > 0 {
		for _, c := range contenders {
			// The server's noise is not ours to share.
			if o := c.setup.Options; o != nil && o["noise"] == "" {
				o["noise"] = "off"
			}
		}
	}
	if err := r.readable(contenders); err != nil {
		return err
	}
	ways := f.drafts.ways(contenders, p.Temperature)
	about := r.about(cmd, ways)
	if err := r.openJournal(about); err != nil {
		return err
	}
	failed := r.ways(ctx, contenders, ways)
	if r.tokens == 0 && !r.found {
		return errors.Join(failed, errors.New("nothing was replayed"))
	}
	about.Drafts = r.drafts
	if r.spent > 0 && r.tokens > 0 {
		fmt.Fprintf(a.stderr, "replayed %d tokens in %.2f s: %.0f tokens/s\n", r.tokens, r.spent.Seconds(), float64(r.tokens)/r.spent.Seconds())
	}
	return errors.Join(failed, a.write(report.New(about, &r.gather), &f.output))
}

// openTarget opens the target, when one is named: drafters may borrow parts of
// it. Its hash must be the recording's.
func (r *replayRun) openTarget(cmd *cobra.Command) error {
	f := r.flags
	f.model.setup.Draft.Kind = bench.None
	if f.model.setup.Model == "" && (r.rec.Header.Source != recording.Local || r.app.family == nil || !r.ofFamily()) {
		f.model.setup.Kinds = r.app.kinds
		return nil
	}
	f.model.setup.Context = r.rec.Header.Spec.Context
	if r.rec.Header.Source == recording.Server {
		f.model.setup.Context = 0
	}
	if err := r.app.finishModel(cmd, &f.model); err != nil {
		return err
	}
	in, err := r.app.open(&f.model)
	if err != nil {
		return err
	}
	r.in, r.text = in, in.Tokenizer
	h := &r.rec.Header
	spec := in.Model.Spec()
	if h.Source == recording.Local && (in.Checkpoint.Hash() != h.Target.Hash || spec.Bytes != h.Target.Bytes) {
		return fmt.Errorf("%s (hash %.12s, %d bytes of weights) is not the target of the recording, %s (hash %.12s, %d bytes)",
			in.Checkpoint.Path(), in.Checkpoint.Hash(), spec.Bytes, h.Target.Path, h.Target.Hash, h.Target.Bytes)
	}
	return nil
}

// ofFamily tells whether the recording is of the family's target.
func (r *replayRun) ofFamily() bool {
	ck, err := checkpoint.OpenFS(r.app.family.files, r.app.family.target)
	if err != nil {
		return false
	}
	defer ck.Close()
	return ck.Hash() == r.rec.Header.Target.Hash
}

func (r *replayRun) about(cmd *cobra.Command, ways []bench.Config) bench.About {
	h := &r.rec.Header
	about := bench.About{
		Format: bench.TrialsFormat, Version: 1, Command: cmd.Name(), Program: bench.Version(), Started: r.app.now().UTC().Truncate(time.Second),
		Flags: flagsOf(cmd), Machine: h.Machine, Target: h.Target, Data: h.Data, Items: len(r.rec.Items), Chat: h.Chat,
		Context: h.Spec.Context, Params: h.Params, Costs: h.Costs, Predicted: true, Ways: ways,
	}
	if r.shards > 1 {
		about.Shard = r.flags.shard
	}
	return about
}

func (r *replayRun) openJournal(about bench.About) error {
	if r.flags.journal == "" {
		return nil
	}
	var err error
	r.journal, err = journal.Open(r.flags.journal, about, func(line []byte) error {
		var have bench.About
		if err := json.Unmarshal(line, &have); err != nil {
			return err
		}
		return about.Same(have)
	}, func(data []byte) error {
		var line bench.Line
		if err := json.Unmarshal(data, &line); err != nil {
			return err
		}
		for _, t := range line.Results {
			r.found, r.finished(t.Config)[t.Trial.Key()] = true, true
		}
		return r.gather.Add(line)
	})
	return err
}

// finished are the keys of a way's items that the journal has.
func (r *replayRun) finished(c bench.Config) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done[c] == nil {
		r.done[c] = map[string]bool{}
	}
	return r.done[c]
}

// ways replays all ways of decoding: side by side where no device is needed,
// else one after the other.
func (r *replayRun) ways(ctx context.Context, contenders []contender, ways []bench.Config) error {
	bar := r.app.progress(len(ways)*len(r.rec.Items), "items")
	defer bar.end()
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(1)
	if r.in == nil {
		g.SetLimit(runtime.GOMAXPROCS(0))
	}
	for _, c := range ways {
		r.gather.Of(c) // in this order
	}
	start := r.app.now()
	for n, c := range ways {
		g.Go(func() error {
			if c.Plain() {
				return r.way(inner, n, c, nil, bar)
			}
			return r.draft(inner, n, c, contenders[(n-1)/len(r.flags.drafts.widths)], bar)
		})
	}
	err := g.Wait()
	r.spent = r.app.now().Sub(start)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// draft replays a way with its drafter.
func (r *replayRun) draft(ctx context.Context, n int, c bench.Config, x contender, bar *progress) error {
	return r.with(c.String(), x, func(d *engine.Draft) error {
		if d.Checkpoint != nil {
			r.uses(bench.CheckpointOf(d.Checkpoint, nil))
		}
		return r.way(ctx, n, c, d.Drafter, bar)
	})
}

// with opens a drafter, on the target if there is one, for as long as do takes.
func (r *replayRun) with(name string, x contender, do func(*engine.Draft) error) error {
	basis := engine.Basis{}
	if r.in != nil {
		basis = r.in.Basis()
	} else {
		if k, err := r.app.kinds.Find(x.setup.Kind); err == nil && (k.NeedsCheckpoint || k.OptionalCheckpoint) {
			return fmt.Errorf("%s: the target's checkpoint is needed: say --model", name)
		}
		target, err := replay.Bindable(r.rec)
		if err != nil {
			return err
		}
		defer target.Close()
		basis.Target = target
	}
	d, err := engine.OpenDraft(r.app.kinds, x.setup, basis, r.warn)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(do(d), d.Close())
}

// readable tells before anything is replayed that a drafter reads hidden states
// which are not there. Drafters are opened for it only if some are not.
func (r *replayRun) readable(contenders []contender) error {
	broken := r.rec.Readable()
	if broken == nil {
		return nil
	}
	for _, x := range contenders {
		name := bench.Config{Kind: x.setup.Kind, Draft: x.name}.Drafter()
		err := r.with(name, x, func(d *engine.Draft) error {
			if len(d.Contract().Inputs.Layers) == 0 {
				return nil
			}
			return fmt.Errorf("%s reads %w", name, broken)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mine tells whether an item of a way is this shard's. A drafter that learns
// from stream to stream needs all streams in order, so its way is not divided.
func (r *replayRun) mine(way, item int, d drafter.Drafter) bool {
	if d != nil && len(d.Contract().Parts) > 0 {
		return way%r.shards == r.shard
	}
	return item%r.shards == r.shard
}

func (r *replayRun) way(ctx context.Context, n int, c bench.Config, d drafter.Drafter, bar *progress) error {
	o := replay.Options{Config: c, Drafter: d, Tokenizer: r.text, Now: r.app.now, Warn: r.warn}
	if r.in == nil {
		// Copying takes microseconds, which on a shared clock would be mostly those
		// of the ways side by side.
		o.Draft = &replay.DraftCosts{}
	}
	player, err := replay.New(r.rec, o)
	if err != nil {
		return err
	}
	done := r.finished(c)
	for i, item := range r.rec.Items {
		if r.mine(n, i, d) && !done[item.Key()] {
			t, err := player.Play(ctx, item)
			if err != nil {
				return errors.Join(err, player.Close())
			}
			if r.rec.Header.Costs == nil {
				t.Untimed()
			}
			if err := r.keep(bench.Line{Item: item.ID, Results: []bench.Result{{Config: c, Trial: t}}}, bar); err != nil {
				return errors.Join(err, player.Close())
			}
		}
	}
	return player.Close()
}

// warn prints a warning of one of the ways.
func (r *replayRun) warn(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.app.warn(message)
}

// uses notes a draft model for the report.
func (r *replayRun) uses(c bench.Checkpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.drafts, func(have bench.Checkpoint) bool { return have.Hash == c.Hash }) {
		r.drafts = append(r.drafts, c)
	}
}

// keep takes a result in.
func (r *replayRun) keep(line bench.Line, bar *progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	bar.step()
	for _, x := range line.Results {
		r.tokens += x.Trial.Tokens
	}
	if err := r.gather.Add(line); err != nil {
		return err
	}
	if r.journal == nil {
		return nil
	}
	return r.journal.Append(line)
}
