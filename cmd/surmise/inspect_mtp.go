package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"surmise/bench/prompts"
	"surmise/drafter"
	"surmise/engine"
	"surmise/tokenizer"
)

// mtpFlags are the flags of inspect --mtp.
type mtpFlags struct {
	on   bool
	head string
	file string
}

func (f *mtpFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.on, "mtp", false, "measure a multi-token-prediction head's acceptance with both hidden states it may read")
	fl.StringVar(&f.head, "draft-model", "", "with --mtp: the head's checkpoint (default: the target's own heads)")
	fl.StringVar(&f.file, "text", "", "with --mtp: a text file to continue at several places, best one like those the model is for; - is standard input (default: built-in prompts)")
}

// check refuses what only one way of inspecting looks at.
func (f *mtpFlags) check(cmd *cobra.Command) error {
	problem, others := "without --mtp means nothing: add it, or leave this out", []string{"draft-model", "text"}
	if f.on {
		problem, others = "together with --mtp, which prints acceptance only: leave one of them out", []string{"tensors", "template"}
	}
	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s %s", name, problem))
		}
	}
	return nil
}

// builtinText is made of a few prompts of every category.
func builtinText() (string, error) {
	set, err := prompts.Builtin()
	if err == nil {
		set, err = set.Choose(prompts.Choice{Limit: 12})
	}
	var text strings.Builder
	for _, q := range set.Items {
		text.WriteString(q.Turns[0] + "\n\n")
	}
	return text.String(), err
}

// read is the text to continue.
func (f *mtpFlags) read(stdin io.Reader) (string, error) {
	if f.file == "" {
		return builtinText()
	}
	return readText("--text", f.file, stdin)
}

// headJSON is the acceptance with one hidden state as JSON.
type headJSON struct {
	Hidden string `json:"hidden"`
	draftJSON
}

// inspectMTP continues a text with the head reading one state, then the other.
func (a *app) inspectMTP(ctx context.Context, f *inspectFlags) (err error) {
	text, err := f.mtp.read(a.stdin)
	if err != nil {
		return err
	}
	f.model.setup.Kinds = a.kinds
	f.model.setup.Draft.Kind = drafter.MTP
	f.model.setup.Draft.Model = f.mtp.head
	if err := a.useFamily(&f.model); err != nil {
		return err
	}
	d := f.model.setup.Draft
	f.model.setup.Draft = engine.DraftSetup{}
	ctx, stop := interruptible(ctx)
	defer stop()
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	ids, err := in.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		return err
	}
	found, err := in.CompareHidden(ctx, a.kinds, d, ids)
	if err != nil {
		return err
	}
	if f.json {
		out := make([]headJSON, len(found))
		for i, x := range found {
			out[i] = headJSON{x.Hidden, draftOf(drafter.MTP, &x.Tally)}
		}
		return a.encodeJSON(out)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "hidden state\tdrafts\tacceptance rate\tmean acceptance length\tby position\t")
	for _, x := range found {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.2f\t", x.Hidden, x.Drafts, x.AcceptanceRate(), x.MeanAcceptanceLength())
		for _, rate := range draftOf(drafter.MTP, &x.Tally).PerPosition {
			fmt.Fprintf(w, " %.2f", rate)
		}
		fmt.Fprintln(w, "\t")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	better, other := found[0], found[1]
	if other.AcceptanceRate() > better.AcceptanceRate() {
		better, other = other, better
	}
	if better.AcceptanceRate() < 1.1*other.AcceptanceRate()+0.02 {
		fmt.Fprintln(a.stdout, "the two are too close to tell which state the head was trained on")
	} else {
		fmt.Fprintf(a.stdout, "the head was trained on the %s state, it seems\n", better.Hidden)
	}
	return nil
}
