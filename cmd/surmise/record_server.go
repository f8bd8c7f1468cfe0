package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"surmise/bench"
	"surmise/bench/prompts"
	"surmise/bench/recording"
	"surmise/bench/remote"
	"surmise/sampler"
	"surmise/tokenizer"
)

// serverParams are the sampling parameters that servers are told, by their names.
var serverParams = []string{
	"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty", "stop", "ignore_eos", "min_new_tokens",
}

// recordServer records an OpenAI-compatible server. The model flag names the
// checkpoint whose tokenizer is the target's; its weights are not loaded.
func (a *app) recordServer(ctx context.Context, f *recordFlags, set prompts.Set) error {
	if len(f.layers) > 0 || len(f.drafts.kinds) > 0 || len(f.drafts.models) > 0 {
		return usage(errors.New("a server tells no hidden states: leave out --hidden-layers, --draft-kind and --draft-model"))
	}
	key := ""
	if f.server.keyEnv != "" {
		if key = a.getenv(f.server.keyEnv); key == "" {
			return usage(fmt.Errorf("--api-key-env %s: that variable is empty", f.server.keyEnv))
		}
	}
	ck, err := a.openCheckpoint(&f.model)
	if err != nil {
		return err
	}
	defer ck.Close()
	text, err := tokenizer.FromCheckpoint(ck)
	if err != nil {
		return err
	}
	p := f.sampling.params
	h, err := a.header(set, p)
	if err != nil {
		return err
	}
	encoder := prompts.Encoder{Tokenizer: text, Raw: f.data.raw}
	size := ck.Config().Context
	if n := f.model.setup.Context; n > 0 {
		size = n
	}
	eos := text.EOS()
	h.Source, h.Machine, h.Chat = recording.Server, bench.ThisMachine(""), encoder.Chat()
	h.Target = bench.Checkpoint{Path: f.server.url + " " + f.server.model, Hash: ck.Hash()}
	h.Spec = recording.Spec{Vocab: max(text.VocabSize(), ck.Config().VocabSize), Context: size}
	for _, id := range eos {
		h.Spec.EOS = append(h.Spec.EOS, int(id))
	}
	w, err := recording.Create(f.out, h)
	if err != nil {
		return err
	}
	var mu sync.Mutex // of warnings and of the clock
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return a.now()
	}
	source := &recording.ServerSource{
		Client: &remote.Client{
			BaseURL: f.server.url, Key: key, Model: f.server.model, HTTP: &http.Client{}, Idle: f.server.idle, Attempts: f.server.attempts,
			Random: remote.Random, Sleep: remote.Sleep, Now: now,
			Retrying: func(attempt int, wait time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				a.warn(fmt.Sprintf("attempt %d failed, trying again in %v: %v", attempt, wait.Round(time.Millisecond), err))
			},
		},
		Encoder: encoder, Tokenizer: text, Body: serverBody(&p), Context: size, MaxNew: p.MaxNewTokens, Seed: *p.Seed, EOS: eos,
	}
	return errors.Join(a.together(ctx, set, f.server.concurrency, func(ctx context.Context, q prompts.Item) error {
		return source.Record(ctx, w, q)
	}), w.Close())
}

// serverBody are the parameters that are not at their neutral value.
func serverBody(p *sampler.Params) map[string]any {
	neutral := sampler.Default()
	body := map[string]any{"temperature": max(p.Temperature, 0)}
	for _, name := range serverParams[1:] {
		f, ok := sampler.Lookup(name)
		if !ok || string(f.Value(p)) == string(f.Value(&neutral)) {
			continue
		}
		if name == "min_new_tokens" {
			name = "min_tokens"
		}
		body[name] = json.RawMessage(f.Value(p))
	}
	return body
}

// together does questions, so many at a time. What is under way when one fails
// is given up; what is done stays done.
func (a *app) together(ctx context.Context, set prompts.Set, most int, do func(context.Context, prompts.Item) error) error {
	bar := a.progress(len(set.Items), "questions")
	defer bar.end()
	var mu sync.Mutex
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(most)
	for _, q := range set.Items {
		if inner.Err() != nil {
			break
		}
		g.Go(func() error {
			err := do(inner, q)
			if err == nil {
				mu.Lock()
				bar.step()
				mu.Unlock()
			}
			return err
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted; the same command goes on from here")
	}
	return err
}
