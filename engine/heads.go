package engine

import (
	"context"
	"fmt"
	"maps"

	"surmise/drafter"
	"surmise/sampler"
)

// HeadAcceptance is how a multi-token-prediction head fared with one choice of
// the target's hidden state.
type HeadAcceptance struct {
	// Hidden is "normed" or "raw".
	Hidden string
	drafter.Tally
}

// The measurement of CompareHidden: continuations of the text at some places.
const (
	headPlaces = 8
	headTokens = 32
	headWidth  = 4
)

// CompareHidden measures the acceptance of a head for both choices of hidden
// state it may have been trained with. A wrong choice fails nowhere, it only
// lowers acceptance, so the better one is the right one. The text's beginnings
// are continued greedily at several places, with up to four proposals a round.
// d chooses the head's checkpoint; without a model it is the target's own.
func (in *Instance) CompareHidden(ctx context.Context, kinds *drafter.Kinds, d DraftSetup, text []int32) ([]HeadAcceptance, error) {
	d.Kind = drafter.MTP
	text = text[:max(0, min(len(text), in.Model.Spec().Context-headTokens))]
	if len(text) < headPlaces {
		return nil, fmt.Errorf("compare hidden states: a text of %d tokens (with room for %d more in the context of %d) is too short: want %d or more",
			len(text), headTokens, in.Model.Spec().Context, headPlaces)
	}
	given := d.Options
	var out []HeadAcceptance
	for _, hidden := range []string{"normed", "raw"} {
		d.Options = maps.Clone(given)
		if d.Options == nil {
			d.Options = map[string]string{}
		}
		d.Options["hidden"] = hidden
		head, err := OpenDraft(kinds, d, in.Basis(), nil)
		if err != nil {
			return nil, fmt.Errorf("compare hidden states: %w", err)
		}
		a := HeadAcceptance{Hidden: hidden}
		err = in.continueAt(ctx, head, text, &a.Tally)
		if e := head.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, fmt.Errorf("compare hidden states: %w", err)
		}
		out = append(out, a)
	}
	return out, nil
}

// continueAt continues the text's beginnings and adds up the counts.
func (in *Instance) continueAt(ctx context.Context, d drafter.Drafter, text []int32, sum *drafter.Tally) error {
	e := New(in.Model, in.Tokenizer, Options{Width: drafter.Fixed(headWidth)})
	p := sampler.Default()
	seed := uint64(1)
	p.Temperature, p.Seed, p.MaxNewTokens, p.IgnoreEOS = 0, &seed, headTokens, true
	for i := range headPlaces {
		c := NewCollector(1)
		prompt := text[:len(text)*(i+1)/headPlaces]
		// Fresh, since a shared prefix would be without the head's entries.
		if err := e.Run(ctx, Request{Prompt: prompt, Params: p, Drafter: d, Emit: c.Add, Fresh: true}); err != nil {
			return err
		}
		f := c.Answers()[0].Finish
		if f.Err != nil {
			return f.Err
		}
		for _, s := range f.Timings.Sources {
			sum.Add(&s.Tally)
		}
		for _, x := range f.Timings.Declines {
			if x.Reason == drafter.Failed {
				return fmt.Errorf("the head failed: run surmise generate with draft kind %s to see why", drafter.MTP)
			}
		}
	}
	return nil
}
