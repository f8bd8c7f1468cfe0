package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surmise/bench"
	"surmise/bench/prompts"
	"surmise/checkpoint"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/costs"
)

// dataFlags say which questions are asked.
type dataFlags struct {
	file   string
	choice prompts.Choice
	raw    bool
}

func (f *dataFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.file, "data", "", "questions: Spec-Bench or DeepSpec JSON lines, or plain text, a prompt a line or parted by lines of --- (default: the built-in mix)")
	fl.IntVar(&f.choice.Limit, "limit", 0, "how many questions, in turn from every category; 0 is all")
	fl.StringSliceVar(&f.choice.Categories, "categories", nil, "categories of questions, parted by commas (default all)")
	fl.Uint64Var(&f.choice.ShuffleSeed, "shuffle-seed", 0, "shuffle the questions before --limit takes some; 0 does not")
	fl.BoolVar(&f.raw, "raw", false, "continue the questions as they are, without the chat template")
}

// read reads and chooses the questions.
func (f *dataFlags) read() (prompts.Set, error) {
	set, err := prompts.Builtin()
	if f.file != "" {
		set, err = prompts.Open(f.file)
	}
	if err != nil {
		return set, err
	}
	set, err = set.Choose(f.choice)
	return set, usage(err)
}

// clockFlags say by which clock experiments measure.
type clockFlags struct{ clock string }

func (f *clockFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.clock, "clock", "wall", "wall, or cpu: processor time, for machines that are busy with other things (with --threads 1)")
}

// finish makes the chosen clock the app's.
func (f *clockFlags) finish(a *app, m *modelFlags) error {
	switch f.clock {
	case "wall":
		return nil
	case "cpu":
	default:
		return usage(fmt.Errorf("--clock %q: want wall or cpu", f.clock))
	}
	if m.setup.Threads != 1 {
		return usage(errors.New("--clock cpu: workers that wait for each other use processor time too: say --threads 1"))
	}
	if _, ok := cpuTime(); !ok {
		return usage(errors.New("--clock cpu: this system does not tell processor times"))
	}
	start := a.now()
	a.now = func() time.Time {
		t, _ := cpuTime()
		return start.Add(t)
	}
	return nil
}

// draftFlags say which drafters are compared.
type draftFlags struct {
	kinds, models, widths []string
	temperatures          []float64
}

func (a *app) addDrafts(cmd *cobra.Command, f *draftFlags) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.kinds, "draft-kind", nil, "draft kind, or KIND=PATH with a draft model; may be repeated ("+strings.Join(a.kinds.Names()[1:], ", ")+")")
	fl.StringSliceVar(&f.models, "draft-model", nil, "draft checkpoint, for the kinds it can serve as; may be repeated")
	fl.StringSliceVar(&f.widths, "draft-block-size", []string{engine.Auto}, "caps on the tokens proposed in a round, each 1 to 64 or auto; may be repeated")
	fl.Float64SliceVar(&f.temperatures, "temperatures", nil, "temperatures to compare at (default that of --temp)")
	addDraftOptions(fl)
	a.alias(fl.Lookup("draft-model"), "model-draft")
	a.alias(fl.Lookup("draft-block-size"), "draft", "draft-max", "spec-draft-n-max")
}

// contender is a drafter that takes part: its setup and the name of its model.
type contender struct {
	setup engine.DraftSetup
	name  string
}

// contenders are the drafters the flags ask for. Kinds without a path take the
// draft models that can serve as them, or those of the family.
func (a *app) contenders(cmd *cobra.Command, f *draftFlags, m *modelFlags) ([]contender, error) {
	options, err := readDraftOptions(cmd.Flags())
	if err != nil {
		return nil, err
	}
	served := map[string][]string{} // models by the kind they are detected as
	var order []string
	for _, path := range f.models {
		kind, err := detect(path)
		if err != nil {
			return nil, err
		}
		if len(served[kind]) == 0 {
			order = append(order, kind)
		}
		served[kind] = append(served[kind], path)
	}
	kinds := f.kinds
	if len(kinds) == 0 {
		kinds = order
	}
	if len(kinds) == 0 {
		kinds = []string{drafter.Lookup}
		if m.setup.FS != nil {
			kinds = a.familyKinds()
		}
	}
	var out []contender
	add := func(kind, path string, files fs.FS) error {
		c := contender{engine.DraftSetup{Kind: kind, Model: path, FS: files, Options: options}, path}
		out = append(out, c)
		return usage(engine.Setup{Model: "-", Kinds: a.kinds, Draft: c.setup}.Check())
	}
	for _, text := range kinds {
		name, path, given := strings.Cut(text, "=")
		k, err := a.kinds.Find(name)
		if err != nil {
			return nil, usage(err)
		}
		paths := served[name]
		if given {
			paths = []string{path}
		} else if name == composed {
			paths = f.models
		}
		switch {
		case len(paths) > 0 && (k.NeedsCheckpoint || k.OptionalCheckpoint):
			for _, p := range paths {
				if err := add(name, p, nil); err != nil {
					return nil, err
				}
			}
		case m.setup.FS != nil && (k.NeedsCheckpoint || k.OptionalCheckpoint):
			dir, ok := a.family.drafters[name]
			if !ok && name == composed {
				dir = a.family.drafters[drafter.FullModel]
			}
			err = add(name, dir, m.setup.FS)
		default:
			err = add(name, path, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// composed is the kind that any draft model can be a part of.
const composed = "cascade"

// familyKinds are the kinds that the models inside the program can be tried with.
func (a *app) familyKinds() []string {
	var out []string
	for _, name := range a.kinds.Names()[1:] {
		if _, ok := a.family.drafters[name]; ok || name == drafter.Lookup || name == composed && a.family.drafters[drafter.FullModel] != "" {
			out = append(out, name)
		}
	}
	return out
}

func detect(path string) (string, error) {
	ck, err := checkpoint.Open(path)
	if err != nil {
		return "", fmt.Errorf("draft model: %w", err)
	}
	found, err := drafter.Detect(ck)
	return found.Kind, errors.Join(err, ck.Close())
}

// ways are the ways of decoding to compare at a temperature: plain, and every
// drafter with every width.
func (f *draftFlags) ways(contenders []contender, temperature float64) []bench.Config {
	out := []bench.Config{{Kind: bench.None, Temperature: temperature}}
	for _, c := range contenders {
		for _, w := range f.widths {
			out = append(out, bench.Config{Kind: c.setup.Kind, Draft: c.name, Width: w, Temperature: temperature})
		}
	}
	return out
}

// check refuses widths and temperatures that are none.
func (f *draftFlags) check(otherwise float64) error {
	for _, w := range f.widths {
		if _, err := drafter.ParseWidth(w); err != nil {
			return usage(err)
		}
	}
	if len(f.temperatures) == 0 {
		f.temperatures = []float64{otherwise}
	}
	for i, t := range f.temperatures {
		if !(t >= 0 && t < 100) {
			return usage(fmt.Errorf("--temperatures %v: want numbers from 0 to 100", t))
		}
		if slices.Contains(f.temperatures[:i], t) {
			return usage(fmt.Errorf("--temperatures %v is given twice", t))
		}
	}
	return nil
}

// curveRows are the numbers of rows that experiments measure: densest where
// widths are usual.
var curveRows = []int{1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 17, 24, 33, 64}

// measureCurves measures forwards at two lengths of context, for predictions and
// the report; nil if no time is given.
func (a *app) measureCurves(ctx context.Context, in *engine.Instance, budget time.Duration) (*bench.Costs, error) {
	if budget <= 0 {
		return nil, nil
	}
	room := in.Model.Spec().Context - costs.MaxRows
	if room < 1 {
		return nil, nil
	}
	out := &bench.Costs{}
	for _, context := range []int{min(64, room), min(512, room)} {
		if n := len(out.Curves); n > 0 && out.Curves[n-1].Context == context {
			continue
		}
		t, err := costs.Measure(ctx, in.Model, costs.Options{
			Context: context, Rows: curveRows, Repeats: 200, Budget: budget / 2, Clock: a.now, Seed: 1,
		})
		if err != nil && ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		if err != nil {
			return nil, err
		}
		out.Curves = append(out.Curves, bench.CurveOf(t))
	}
	return out, nil
}

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func (a *app) progress(total int, what string) *progress {
	if !a.stderrTTY || total < 1 {
		return &progress{}
	}
	return &progress{progressbar.NewOptions(total, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))}
}

func (p *progress) step() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// flagsOf are the flags that were given, for reports.
func flagsOf(cmd *cobra.Command) []string {
	var out []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "api-key-env" {
			return
		}
		out = append(out, "--"+f.Name+"="+f.Value.String())
	})
	return out
}
