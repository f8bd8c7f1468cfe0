package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"surmise/engine"
	"surmise/sampler"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	model      modelFlags
	sampling   samplingFlags
	prompt     promptFlags
	json       bool
	showDrafts bool
}

func (a *app) generateCommand() *cobra.Command {
	f := new(generateFlags)
	cmd := &cobra.Command{
		Use:   "generate --prompt TEXT [--model PATH]",
		Short: "Continue a prompt, or answer it",
		Long: "Continue a prompt, or answer it. With several samples, what is counted at the end and in --json are the tokens,\n" +
			"rounds and drafts of all of them together; their rounds run side by side, so times are those of the longest.",
		Example: "  surmise generate -m model.gguf -p 'The capital of France is'\n" +
			"  surmise generate -m model.gguf --prompt-file main.go --raw --prompt-lookup --json",
		Args: noArgs,
	}
	a.addModel(cmd, &f.model)
	f.prompt.add(cmd)
	err := a.addSampling(cmd, &f.sampling, sampler.ProfileGenerate)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of text")
	cmd.Flags().BoolVar(&f.showDrafts, "show-drafts", false, "colour accepted proposals by the kind that made them, on a terminal")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err != nil {
			return err
		}
		return a.generate(cmd, f)
	}
	return cmd
}

func (a *app) generate(cmd *cobra.Command, f *generateFlags) error {
	if err := a.finishModel(cmd, &f.model); err != nil {
		return err
	}
	if err := a.finishSampling(&f.sampling); err != nil {
		return err
	}
	if f.sampling.params.Logprobs && !f.json {
		return usage(errors.New("--logprobs without --json, which shows them: add --json"))
	}
	if p := f.sampling.params; f.showDrafts && (f.json || p.Candidates() > 1 || p.Beams > 1) {
		return usage(errors.New("--show-drafts colours one answer as it streams: leave it out with --json, or with several samples or beams"))
	}
	text, ids, err := f.prompt.read(cmd, a.stdin)
	if err != nil {
		return err
	}
	f.model.setup.Sequences = sequences(f.sampling.params)
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	// Only now, so that Ctrl-C while a large model loads ends the program at once.
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	err = a.answer(ctx, in, f, text, ids)
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	return err
}

// sequences is how many sequences are open at once while a request is answered:
// its samples, or beams beside those they grow from.
func sequences(p sampler.Params) int {
	return max(2, p.Candidates(), 2*p.Beams)
}

// answer runs the request and prints what it comes to.
func (a *app) answer(ctx context.Context, in *engine.Instance, f *generateFlags, text string, ids []int32) error {
	if ids == nil {
		var err error
		if ids, err = f.prompt.encode(in.Tokenizer, text); err != nil {
			return err
		}
	}
	p := f.sampling.params
	samples := p.Candidates()
	out := a.newPrinter(f.showDrafts)
	run := func(ctx context.Context, r engine.Request) error { return in.Engine.Run(ctx, r) }
	if p.Beams > 1 {
		run, samples = in.Engine.Beam, p.N
	}
	collected := engine.NewCollector(samples)
	stream := !f.json && samples == 1
	if !f.json {
		fmt.Fprintf(a.stderr, "seed %d\n", *p.Seed)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	err := run(inner, engine.Request{Prompt: ids, Params: p, Drafter: in.Drafter, Emit: func(e engine.Event) {
		collected.Add(e)
		if stream {
			out.print(e)
		}
		if out.err != nil {
			cancel() // nobody can read the rest
		}
	}})
	if stream {
		out.end(a.stdoutTTY)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	if out.err != nil {
		return out.err
	}
	if err != nil {
		return err
	}
	// A beam search may find fewer answers than were asked for.
	best, err := collected.Best(p.BestOfBy, p.N)
	if err != nil {
		return err
	}
	answers := slices.DeleteFunc(slices.Clone(best), func(x engine.Answer) bool { return x.Finish.Reason == "" })
	for _, x := range answers {
		if x.Finish.Err != nil {
			return x.Finish.Err
		}
	}
	total := collected.Timings()
	if p.Beams > 1 {
		total = searched(answers)
	}
	switch {
	case f.json:
		return a.printJSON(answers, total, *p.Seed, p.Logprobs)
	case !stream:
		for _, x := range answers {
			fmt.Fprintf(a.stderr, "sample %d:\n", x.Sample)
			if _, err := fmt.Fprintln(a.stdout, x.Text); err != nil {
				return fmt.Errorf("write the text: %w", err)
			}
		}
	}
	if legend := out.legend(); legend != "" {
		fmt.Fprintln(a.stderr, legend)
	}
	if samples > 1 {
		fmt.Fprintf(a.stderr, "%d samples, ", samples)
	}
	fmt.Fprintln(a.stderr, summary(total))
	return nil
}

// searched are the timings of a beam search, whose answers are of the same rounds.
func searched(answers []engine.Answer) engine.Timings {
	total := answers[0].Finish.Timings
	for _, x := range answers[1:] {
		total.PredictedN += x.Finish.Timings.PredictedN
	}
	return total
}

// tokenLogprob is a token with its log probability as JSON.
type tokenLogprob struct {
	Token   int32          `json:"id"`
	Logprob float64        `json:"logprob"`
	Top     []tokenLogprob `json:"top_logprobs,omitempty"`
}

// answerJSON is an answer as JSON.
type answerJSON struct {
	Text         string         `json:"text"`
	Tokens       []int32        `json:"tokens"`
	FinishReason string         `json:"finish_reason"`
	MatchedStop  string         `json:"matched_stop,omitempty"`
	Logprobs     []tokenLogprob `json:"logprobs,omitempty"`
}

// sampleJSON is one of several answers as JSON. Timings are its own; rounds, and
// with them their times, it shares with the others.
type sampleJSON struct {
	answerJSON
	Timings timings `json:"timings"`
}

// outputJSON is what --json prints. With several samples the first is repeated
// among Samples, and Timings are those of all of them together; see
// engine.Collector.Timings.
type outputJSON struct {
	answerJSON
	Seed    uint64       `json:"seed"`
	Timings timings      `json:"timings"`
	Samples []sampleJSON `json:"samples,omitempty"`
}

func answerOf(x engine.Answer, logprobs bool) answerJSON {
	out := answerJSON{Text: x.Text, Tokens: x.IDs(), FinishReason: string(x.Finish.Reason), MatchedStop: x.Finish.Matched}
	if !logprobs {
		return out
	}
	for _, t := range x.Tokens {
		l := tokenLogprob{Token: t.ID, Logprob: t.Logprob}
		for _, top := range t.Top {
			l.Top = append(l.Top, tokenLogprob{Token: top.Token, Logprob: top.Logprob})
		}
		out.Logprobs = append(out.Logprobs, l)
	}
	return out
}

func (a *app) printJSON(answers []engine.Answer, total engine.Timings, seed uint64, logprobs bool) error {
	out := outputJSON{answerJSON: answerOf(answers[0], logprobs), Seed: seed, Timings: timingsOf(total)}
	if len(answers) > 1 {
		for _, x := range answers {
			out.Samples = append(out.Samples, sampleJSON{answerOf(x, logprobs), timingsOf(x.Finish.Timings)})
		}
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
