package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"surmise/drafter"
	"surmise/engine"
	"surmise/sampler"
	"surmise/tokenizer"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	model modelFlags
	json  bool
}

func (a *app) explainCommand() *cobra.Command {
	f := new(explainFlags)
	cmd := &cobra.Command{
		Use:   "explain [--model PATH] [--draft-model PATH]",
		Short: "Show what a drafter promises, costs and can bring with a model on this machine",
		Long: "Show a drafter's contract, whether blocks of tokens are exact on this machine, what forwards and drafting\n" +
			"take, and which width the automatic policy would choose for which acceptance.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.explain(cmd, f) },
	}
	a.addModel(cmd, &f.model)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of text")
	cmd.AddCommand(a.explainSamplingCommand())
	return cmd
}

func (a *app) explain(cmd *cobra.Command, f *explainFlags) error {
	if err := a.finishModel(cmd, &f.model); err != nil {
		return err
	}
	if f.model.setup.Draft.Kind == drafter.None {
		return usage(errors.New("--draft-kind none: there is no drafter to explain; want another kind, or a draft model"))
	}
	// What cannot be opened cannot be explained: the error says more than a warning.
	f.model.setup.Draft.Optional = false
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	err = a.explainInstance(ctx, in, f)
	return errors.Join(err, in.Close())
}

// trialText is what explain continues to see what drafting takes and when it engages.
const trialText = "one two three four five one two three four five one two"

func (a *app) explainInstance(ctx context.Context, in *engine.Instance, f *explainFlags) error {
	forward := a.forwardCosts(ctx, &f.model, in)
	var prompt []int32
	if ids, err := in.Tokenizer.Encode(trialText, tokenizer.EncodeOptions{}); err == nil {
		prompt = ids
	}
	x, err := in.Explain(ctx, prompt, forward, a.now)
	if err != nil {
		return err
	}
	if f.json {
		return a.encodeJSON(struct {
			*engine.Explanation
			Forward byRows `json:"forward_ms"`
		}{x, forward})
	}
	return a.printExplanation(x)
}

func (a *app) encodeJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// printExplanation prints the contract, what was measured, and the outlook.
func (a *app) printExplanation(x *engine.Explanation) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	c := x.Contract
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("kind", "%s: %s", c.Kind, c.Summary)
	line("exactness", "greedy %s, sampling %s", c.Greedy, c.Sampling)
	if x.Probe.Exact {
		line("width probe", "blocks of %s gave the bits of single steps", numbers(x.Probe.Widths))
	} else {
		line("width probe", "%s", x.Probe.Difference)
	}
	line("proposes", "%s, at most %d tokens a round", c.Proposes, c.MaxWidth)
	line("reads", "%s", inputs(c.Inputs.Layers, x.TargetLayers))
	features := make([]string, len(c.Features))
	for i, f := range c.Features {
		features[i] = string(f)
	}
	line("works with", "%s", strings.Join(features, ", "))
	rules(line, "checkpoint must have", c.Qualification)
	rules(line, "declines", c.Engagement)
	if x.Drafted > 0 {
		line("drafting takes", "%.3f ms a proposal (%d measured)", milliseconds(x.DraftStep), x.Drafted)
	}
	line("trial", "with the automatic width behind %q: drafted in %d of %d rounds", trialText, x.Trial.Drafts, x.Trial.Rounds)
	for _, reason := range slices.Sorted(maps.Keys(x.Trial.Declined)) {
		line("", "not in %d: %s", x.Trial.Declined[reason], ruleOf(c, reason))
	}
	for _, k := range slices.Sorted(maps.Keys(x.Forward)) {
		line(fmt.Sprintf("forward of %d", k), "%.3f ms", milliseconds(x.Forward[k]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, "\nIf every proposal survives with this chance, the automatic width is about:")
	w = tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "chance\twidth\tspeedup\t")
	for _, o := range x.Outlook {
		if o.Width == 0 {
			fmt.Fprintf(w, "%.2f\tplain\t1.00\t\n", o.Acceptance)
		} else {
			fmt.Fprintf(w, "%.2f\t%d\t%.2f\t\n", o.Acceptance, o.Width, o.Speedup)
		}
	}
	return w.Flush()
}

// inputs says what a drafter reads of a target with so many layers.
func inputs(read []int, layers int) string {
	out := "tokens"
	var blocks []int
	for _, l := range read {
		if l < layers {
			blocks = append(blocks, l)
		}
	}
	switch len(blocks) {
	case 0:
	case 1:
		out += fmt.Sprintf(" and the target's hidden state after layer %d of 0 to %d", blocks[0], layers-1)
	default:
		out += fmt.Sprintf(" and the target's hidden states after layers %s of 0 to %d", numbers(blocks), layers-1)
	}
	if len(blocks) < len(read) {
		out += " and the target's final hidden state, after its last norm"
	}
	return out
}

// ruleOf is the rule a reason is the name of, in words.
func ruleOf(c drafter.Contract, reason drafter.Reason) string {
	for _, r := range c.Engagement {
		if r.Name == string(reason) {
			return fmt.Sprintf("%s: %s (%s)", r.Name, r.When, r.Why)
		}
	}
	return string(reason)
}

// rules prints rules under one heading.
func rules(line func(name, format string, args ...any), heading string, rules []drafter.Rule) {
	for _, r := range rules {
		line(heading, "%s: %s (%s)", r.Name, r.When, r.Why)
		heading = ""
	}
}

func numbers(v []int) string {
	s := make([]string, len(v))
	for i, n := range v {
		s[i] = fmt.Sprint(n)
	}
	return strings.Join(s, ", ")
}

// explainSamplingCommand shows which stages a set of sampling flags makes.
func (a *app) explainSamplingCommand() *cobra.Command {
	f := new(samplingFlags)
	cmd := &cobra.Command{
		Use:   "sampling",
		Short: "Show the sampling stages that a set of flags makes, in their order",
		Args:  noArgs,
	}
	err := a.addSampling(cmd, f, sampler.ProfileGenerate)
	cmd.Flags().String("profile", string(sampler.ProfileGenerate), "whose defaults the flags change: generate, run, serve or library")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err != nil {
			return err
		}
		if err := f.useProfile(cmd); err != nil {
			return usage(err)
		}
		if err := a.finishSampling(f); err != nil {
			return err
		}
		c, err := sampler.NewChain(f.params, explainEnv(), nil, 0)
		if err != nil {
			return usage(err)
		}
		for _, stage := range c.Describe() {
			fmt.Fprintln(a.stdout, stage)
		}
		return nil
	}
	return cmd
}

// explainEnv stands for a model where none is loaded: texts become made-up ids,
// which is enough to say which stages there are.
func explainEnv() sampler.Env {
	return sampler.Env{
		Vocab: 1 << 17, EOS: []int32{0},
		Special: func(id int32) bool { return id == 0 },
		Encode: func(text string) ([]int32, error) {
			if text == "" {
				return nil, errors.New("empty text")
			}
			return []int32{int32(text[0]) + 1}, nil
		},
		Piece: func(id int32) []byte { return []byte{byte(id - 1)} },
	}
}
