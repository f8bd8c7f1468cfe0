package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/bench/prompts"
	"surmise/bench/recording"
	"surmise/engine"
	"surmise/sampler"
)

// recordFlags are the flags of record.
type recordFlags struct {
	model    modelFlags
	sampling samplingFlags
	data     dataFlags
	drafts   draftFlags
	clock    clockFlags
	server   serverFlags
	out      string
	layers   []int
	curve    time.Duration
}

func (a *app) recordCommand() *cobra.Command {
	f := new(recordFlags)
	cmd := &cobra.Command{
		Use:   "record --out FILE [--model PATH | --base-url URL]",
		Short: "Record what a target says, to measure drafters against it later",
		Long: "Record prompts and the streams that answer them, of a target on this machine or of an OpenAI-compatible\n" +
			"server, for `surmise replay`. A stream never depends on the drafter, so a target has to run once. Drafters that\n" +
			"read hidden states need them recorded: name such drafters with --draft-model, or layers with --hidden-layers.\n" +
			"An interrupted recording goes on where it was when the command is given again.",
		Example: "  surmise record -m model.gguf --out rec.jsonl --limit 40\n" +
			"  surmise record -m target --draft-model mtp --draft-model dflash --out rec.jsonl\n" +
			"  surmise record --base-url http://host:8000/v1 --model-name big -m tokenizer-dir --out rec.jsonl",
		Args: noArgs,
	}
	f.clock.add(cmd)
	err := a.addExperiment(cmd, &f.model, &f.sampling, &f.data)
	a.addDrafts(cmd, &f.drafts)
	f.server.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "the recording")
	fl.IntSliceVar(&f.layers, "hidden-layers", nil, "layers whose hidden states are recorded: l is the output of block l, the number of layers that of the final norm")
	fl.DurationVar(&f.curve, "curve-time", 8*time.Second, "time to measure forwards by number of rows, for predictions; 0 leaves it out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err != nil {
			return err
		}
		return a.record(cmd, f)
	}
	return cmd
}

func (a *app) record(cmd *cobra.Command, f *recordFlags) error {
	if f.out == "" {
		return usage(errors.New("no file to record to: say --out FILE"))
	}
	if err := f.server.check(cmd); err != nil {
		return err
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
		return usage(fmt.Errorf("--temperatures %v: a recording has one temperature", f.drafts.temperatures))
	}
	f.sampling.params.Temperature = f.drafts.temperatures[0]
	set, err := f.data.read()
	if err != nil {
		return err
	}
	if err := checkOut(f.out); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	if f.server.url != "" {
		return a.recordServer(ctx, f, set)
	}
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	err = a.recordLocal(ctx, cmd, f, in, set)
	return errors.Join(err, in.Close())
}

// recordLocal records a target on this machine.
func (a *app) recordLocal(ctx context.Context, cmd *cobra.Command, f *recordFlags, in *engine.Instance, set prompts.Set) error {
	layers, err := a.layers(cmd, f, in)
	if err != nil {
		return err
	}
	curves, err := a.measureCurves(ctx, in, f.curve)
	if err != nil {
		return err
	}
	p := f.sampling.params
	spec := in.Model.Spec()
	h, err := a.header(set, p)
	if err != nil {
		return err
	}
	encoder := prompts.Encoder{Tokenizer: in.Tokenizer, Raw: f.data.raw}
	h.Source, h.Machine, h.Target = recording.Local, bench.ThisMachine(in.Device.Name()), bench.CheckpointOf(in.Checkpoint, &spec)
	h.Spec, h.Layers, h.Chat, h.Costs = recording.SpecOf(spec, in.Engine.Env().EOS), layers, encoder.Chat(), curves
	w, err := recording.Create(f.out, h)
	if err != nil {
		return err
	}
	observer := recording.NewObserver(layers)
	lane, err := live.NewLane(live.LaneSetup{
		Config: bench.Config{Kind: "recorder", Width: engine.Auto, Temperature: p.Temperature}, Target: in.Model, Tokenizer: in.Tokenizer,
		Drafter: observer, Params: p, Now: a.now, Warn: a.warn, Reference: sampler.ReferenceFromEnv(a.getenv),
	})
	if err == nil {
		source := &recording.LocalSource{
			Lane: lane, Observer: observer, Encoder: encoder, Context: spec.Context, MaxNew: p.MaxNewTokens, Seed: *p.Seed,
		}
		err = a.each(ctx, set, func(q prompts.Item) error { return source.Record(ctx, w, q) })
	}
	return errors.Join(err, w.Close())
}

// layers are those given, and those that the named drafters read.
func (a *app) layers(cmd *cobra.Command, f *recordFlags, in *engine.Instance) ([]int, error) {
	layers := f.layers
	if len(f.drafts.kinds) == 0 && len(f.drafts.models) == 0 && f.model.setup.FS == nil {
		return layers, nil
	}
	contenders, err := a.contenders(cmd, &f.drafts, &f.model)
	if err != nil {
		return nil, err
	}
	for _, c := range contenders {
		d, err := engine.OpenDraft(a.kinds, c.setup, in.Basis(), a.warn)
		if err != nil {
			return nil, err
		}
		for _, l := range d.Contract().Inputs.Layers {
			if !contains(layers, l) {
				layers = append(layers, l)
			}
		}
		if err := d.Close(); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

func contains(layers []int, l int) bool {
	for _, x := range layers {
		if x == l {
			return true
		}
	}
	return false
}

// header is what every recording's header has.
func (a *app) header(set prompts.Set, p sampler.Params) (recording.Header, error) {
	params, err := json.Marshal(p)
	return recording.Header{
		Program: bench.Version(), Started: a.now().UTC().Truncate(time.Second), Data: set.Name, Params: params,
	}, err
}

// each goes through questions with a bar; an interruption is an error of its own.
func (a *app) each(ctx context.Context, set prompts.Set, do func(prompts.Item) error) error {
	bar := a.progress(len(set.Items), "questions")
	defer bar.end()
	for _, q := range set.Items {
		err := do(q)
		if ctx.Err() != nil {
			return errors.New("interrupted; the same command goes on from here")
		}
		if err != nil {
			return err
		}
		bar.step()
	}
	return nil
}
