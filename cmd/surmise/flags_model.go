package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surmise/compute/cpu"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/costs"
	"surmise/model"
	"surmise/sampler"
)

// modelFlags say what is loaded, and how.
type modelFlags struct {
	setup   engine.Setup
	forward map[int]time.Duration // what forwards take, once forwardCosts was asked
}

// addModelPath gives a command the flag that names the checkpoint.
func (f *modelFlags) addModelPath(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.setup.Model, "model", "m", "", "checkpoint: a GGUF file, a Hugging Face directory, or a folder that holds exactly one of them")
}

// addLoading gives a command the flags of loading a model, but for --ctx.
func (f *modelFlags) addLoading(cmd *cobra.Command) {
	f.addModelPath(cmd)
	fl := cmd.Flags()
	fl.IntVarP(&f.setup.Threads, "threads", "t", 0, "workers; 0 is all cores")
	fl.StringVar(&f.setup.KV, "kv", "f16", "format of the key/value cache: f16 or f32")
	fl.StringVar(&f.setup.Quantize, "quantize", "", "quantize float weights while loading: q8_0, q4_0 or none (default: q8_0 for safetensors, as stored for GGUF)")
}

// addModel gives a command the flags of loading a model and of drafting.
func (a *app) addModel(cmd *cobra.Command, f *modelFlags) {
	f.addLoading(cmd)
	fl := cmd.Flags()
	fl.IntVar(&f.setup.Context, "ctx", 0, "positions a sequence may have; 0 is what the model was trained for")
	d := &f.setup.Draft
	fl.StringVar(&d.Kind, "draft-kind", engine.Auto, "how to draft: "+strings.Join(a.kinds.Names(), ", ")+", or "+engine.Auto+": the draft model given, else the target's own prediction heads, else "+drafter.Lookup)
	fl.StringVar(&d.Model, "draft-model", "", "draft checkpoint")
	a.alias(fl.Lookup("draft-model"), "model-draft")
	fl.StringVar(&d.BlockSize, "draft-block-size", engine.Auto, "cap on the tokens proposed in a round: 1 to 64, or auto")
	a.alias(fl.Lookup("draft-block-size"), "draft", "draft-max", "spec-draft-n-max")
	fl.Bool("prompt-lookup", false, "short for --draft-kind prompt-lookup")
	addDraftOptions(fl)
	fl.BoolVar(&d.Optional, "draft-optional", false, "go on without a drafter that cannot be opened")
}

// draftOptions are flags that are options of kinds that run a network.
var draftOptions = []struct {
	flag, option, initial, help string
	check                       func(value string) error
}{
	{
		"draft-quantize", "quantize", "", "quantize a drafter's float weights while loading: q8_0, q4_0 or none (default: q8_0 for safetensors, as stored for GGUF)",
		func(v string) error { _, err := model.ParseQuantize(v); return err },
	},
	{
		"draft-noise", "noise", "shared", "at a temperature above 0 draft with the target's own noise (shared) or not (off)",
		func(v string) error { _, err := drafter.ParseNoise(v); return err },
	},
}

func addDraftOptions(fl *pflag.FlagSet) {
	for _, o := range draftOptions {
		fl.String(o.flag, o.initial, o.help)
	}
}

// readDraftOptions are the options that were given, by name.
func readDraftOptions(fl *pflag.FlagSet) (map[string]string, error) {
	options := map[string]string{}
	for _, o := range draftOptions {
		if x := fl.Lookup(o.flag); x != nil && x.Changed {
			if err := o.check(x.Value.String()); err != nil {
				return nil, usage(fmt.Errorf("--%s: %w", o.flag, err))
			}
			options[o.option] = x.Value.String()
		}
	}
	return options, nil
}

// checkGiven refuses empty values of the flags that choose drafters, which would
// mean something else than leaving the flag out.
func checkGiven(fl *pflag.FlagSet) error {
	for _, name := range []string{"draft-kind", "draft-model", "draft-block-size", "draft-quantize"} {
		if x := fl.Lookup(name); x != nil && x.Changed && (x.Value.String() == "" || x.Value.String() == "[]") {
			return usage(fmt.Errorf("--%s is empty: give it a value or leave it out", name))
		}
	}
	return nil
}

// finishModel completes the settings after flags are parsed and checks what can be
// checked without opening a file.
func (a *app) finishModel(cmd *cobra.Command, f *modelFlags) error {
	if on, err := cmd.Flags().GetBool("prompt-lookup"); err == nil && on {
		if k := f.setup.Draft.Kind; cmd.Flags().Changed("draft-kind") && k != drafter.Lookup {
			return usage(fmt.Errorf("--prompt-lookup together with --draft-kind %s: leave one of them out", k))
		}
		f.setup.Draft.Kind = drafter.Lookup
	}
	if err := checkGiven(cmd.Flags()); err != nil {
		return err
	}
	var err error
	if f.setup.Draft.Options, err = readDraftOptions(cmd.Flags()); err != nil {
		return err
	}
	f.setup.Kinds = a.kinds
	if err := a.useFamily(f); err != nil {
		return err
	}
	if err := f.setup.Check(); err != nil {
		return usage(err)
	}
	a.noteOptions(&f.setup.Draft)
	return nil
}

// noteOptions says which options mean nothing to the kind that was asked for.
func (a *app) noteOptions(d *engine.DraftSetup) {
	k, err := a.kinds.Find(d.Kind)
	if err != nil {
		return // none, or chosen when the checkpoints are open
	}
	for _, o := range draftOptions {
		if _, given := d.Options[o.option]; given && !slices.Contains(k.Options, o.option) {
			fmt.Fprintf(a.stderr, "note: --%s means nothing to draft kind %s and is ignored\n", o.flag, d.Kind)
		}
	}
}

// forwardCosts is what forwards take on this machine: kept from before, or measured.
func (a *app) forwardCosts(ctx context.Context, f *modelFlags, in *engine.Instance) map[int]time.Duration {
	if f.forward == nil {
		store := a.costs
		store.Warn = a.warn
		f.forward = costs.ForStart(ctx, store, in.Model, in.Checkpoint.Hash(), a.now)
	}
	return f.forward
}

// open loads what the flags say, with a bar on a terminal.
func (a *app) open(f *modelFlags) (*engine.Instance, error) {
	a.announce(f)
	s := f.setup
	s.ISA = cpu.ISAFromEnv()
	s.Engine.Clock = a.now
	s.Engine.Reference = sampler.ReferenceFromEnv(a.getenv)
	s.Warn = func(message string) { fmt.Fprintln(a.stderr, "warning:", message) }
	s.Engine.Warn = s.Warn
	s.Costs = func(in *engine.Instance) map[int]time.Duration {
		return a.forwardCosts(context.Background(), f, in)
	}
	if a.stderrTTY {
		var bar *progressbar.ProgressBar
		s.Progress = func(done, total int64) {
			if bar == nil {
				bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription("loading"),
					progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
			}
			_ = bar.Set64(done)
		}
	}
	return engine.Open(s)
}
