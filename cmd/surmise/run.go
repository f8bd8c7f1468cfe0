package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"surmise/engine"
	"surmise/sampler"
	"surmise/tokenizer"
)

// runFlags are the flags of run.
type runFlags struct {
	model      modelFlags
	sampling   samplingFlags
	system     string
	showDrafts bool
}

func (a *app) runCommand() *cobra.Command {
	f := new(runFlags)
	cmd := &cobra.Command{
		Use:   "run [--model PATH]",
		Short: "Chat with a model in the terminal",
		Long: "Chat with a model in the terminal. Ctrl-C stops an answer; Ctrl-D or /exit leaves.\n" +
			"/clear forgets the conversation, /regenerate answers the last message again, with the next seed.",
		Args: noArgs,
	}
	a.addModel(cmd, &f.model)
	err := a.addSampling(cmd, &f.sampling, sampler.ProfileRun,
		"n", "best_of", "best_of_by", "beams", "length_penalty", "beam_groups", "diversity_penalty", "logprobs", "top_logprobs", "logprobs_mode")
	cmd.Flags().StringVar(&f.system, "system", "", "system message")
	cmd.Flags().BoolVar(&f.showDrafts, "show-drafts", false, "colour accepted proposals by the kind that made them, on a terminal")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err != nil {
			return err
		}
		return a.run(cmd, f)
	}
	return cmd
}

func (a *app) run(cmd *cobra.Command, f *runFlags) error {
	if err := a.finishModel(cmd, &f.model); err != nil {
		return err
	}
	if err := a.finishSampling(&f.sampling); err != nil {
		return err
	}
	if err := checkUTF8("--system", f.system); err != nil {
		return usage(err)
	}
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	if !in.Tokenizer.HasChatTemplate() {
		err = fmt.Errorf("%s has no chat template to talk through: use surmise generate", in.Checkpoint.Path())
	} else {
		fmt.Fprintf(a.stderr, "seed %d. Ctrl-C stops an answer; /exit or Ctrl-D leaves; /clear begins anew.\n", *f.sampling.params.Seed)
		err = a.chat(cmd.Context(), in, f)
	}
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	return err
}

// chat reads messages and answers them until there are no more.
func (a *app) chat(ctx context.Context, in *engine.Instance, f *runFlags) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	c := &conversation{app: a, in: in, flags: f, signals: signals}
	c.clear()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	lines := readLines(reading, a.stdin)
	for {
		if a.stdinTTY {
			fmt.Fprint(a.stderr, "> ")
		}
		var line input
		select {
		case line = <-lines:
		case <-ctx.Done():
			return ctx.Err()
		case <-signals:
			fmt.Fprintln(a.stderr, "\n(Ctrl-D or /exit leaves)")
			continue
		}
		if errors.Is(line.err, io.EOF) {
			if a.stdinTTY {
				fmt.Fprintln(a.stderr) // the shell's prompt gets a line of its own
			}
			return nil
		}
		if line.err != nil {
			return fmt.Errorf("read a message: %w", line.err)
		}
		leave, err := c.take(ctx, line.text)
		if leave || err != nil {
			return err
		}
	}
}

// input is a line, or the end of them.
type input struct {
	text string
	err  error
}

// readLines reads lines without holding up signals. The goroutine ends with
// its reader, or when it has read a line that nobody wants any more.
func readLines(ctx context.Context, r io.Reader) <-chan input {
	lines := make(chan input, 1)
	go func() {
		s := bufio.NewReader(r)
		send := func(i input) bool {
			select {
			case lines <- i:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for {
			text, err := s.ReadString('\n')
			if text != "" && !send(input{text: strings.TrimRight(text, "\r\n")}) {
				return
			}
			if err != nil {
				send(input{err: err})
				return
			}
		}
	}()
	return lines
}

// conversation is a chat's history.
type conversation struct {
	app      *app
	in       *engine.Instance
	flags    *runFlags
	signals  <-chan os.Signal
	messages []tokenizer.Message
	again    uint64 // how often the last message was answered again
}

func (c *conversation) clear() {
	c.messages = nil
	if c.flags.system != "" {
		c.messages = append(c.messages, tokenizer.Message{Role: "system", Content: c.flags.system})
	}
}

// take does what a line says. Errors of an answer are shown and do not end the
// conversation.
func (c *conversation) take(ctx context.Context, line string) (leave bool, err error) {
	switch strings.TrimSpace(line) {
	case "":
		return false, nil
	case "/exit", "/quit":
		return true, nil
	case "/clear":
		c.clear()
		return false, nil
	case "/regenerate":
		if n := len(c.messages); n > 0 && c.messages[n-1].Role == "assistant" {
			c.messages = c.messages[:n-1]
		}
		if n := len(c.messages); n == 0 || c.messages[n-1].Role != "user" {
			fmt.Fprintln(c.app.stderr, "nothing to answer yet")
			return false, nil
		}
		c.again++
	default:
		if strings.HasPrefix(line, "/") {
			fmt.Fprintf(c.app.stderr, "unknown command %q: want /exit, /clear or /regenerate\n", line)
			return false, nil
		}
		if err := checkUTF8("the message", line); err != nil {
			fmt.Fprintln(c.app.stderr, "error:", err)
			return false, nil
		}
		c.messages = append(c.messages, tokenizer.Message{Role: "user", Content: line})
		c.again = 0
	}
	if err := c.answer(ctx); err != nil {
		if ctx.Err() != nil {
			return true, err
		}
		c.messages = c.messages[:len(c.messages)-1]
		fmt.Fprintln(c.app.stderr, "error:", oneLine(err))
		if len(c.messages) > 1 {
			fmt.Fprintln(c.app.stderr, "(/clear forgets the conversation)")
		}
	}
	return false, nil
}

// answer lets the model answer the conversation; what it has said when Ctrl-C
// stops it stays in the history.
func (c *conversation) answer(ctx context.Context) error {
	ids, err := encodeChat(c.in.Tokenizer, c.messages)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-c.signals:
			cancel()
		case <-done:
		}
	}()
	// The same seed would give the same answer again.
	params := c.flags.sampling.params
	seed := *params.Seed + c.again
	params.Seed = &seed
	collected := engine.NewCollector(1)
	out := c.app.newPrinter(c.flags.showDrafts)
	err = c.in.Engine.Run(inner, engine.Request{
		Prompt: ids, Params: params, Drafter: c.in.Drafter,
		Emit: func(e engine.Event) {
			collected.Add(e)
			out.print(e)
		},
	})
	out.end(true)
	stopped := inner.Err() != nil && ctx.Err() == nil
	if err != nil && !stopped {
		return err
	}
	x := collected.Answers()[0]
	if x.Finish.Reason == engine.Failed {
		return x.Finish.Err
	}
	c.messages = append(c.messages, tokenizer.Message{Role: "assistant", Content: x.Text})
	if stopped {
		fmt.Fprintln(c.app.stderr, "(stopped)")
	}
	if legend := out.legend(); legend != "" {
		fmt.Fprintln(c.app.stderr, legend)
	}
	fmt.Fprintln(c.app.stderr, summary(x.Finish.Timings))
	return out.err
}
