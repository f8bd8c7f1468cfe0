package sampler

import (
	"hash/fnv"
	"testing"
)

// The tokens below must be the same on every machine, with every instruction
// set and every compiler setting. A change here changes what users get for a
// seed: it needs a reason and a line in the release notes.
func TestStreamsAreTheSameOnEveryMachine(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Params)
		want   uint64
	}{
		"plain":   {func(*Params) {}, 0x5ced9fa245c154cc},
		"server":  {func(p *Params) { p.TopK, p.TopP, p.MinP, p.Temperature = 40, .9, .1, .8 }, 0xe9e873722aaf8fe5},
		"hf":      {func(p *Params) { p.TopP, p.Order, p.Temperature = .8, OrderHF, 1.4 }, 0xf135f163e3033feb},
		"filters": {func(p *Params) { p.TypicalP, p.EtaCutoff, p.TopNSigma, p.TFSZ, p.PLess = .95, .0003, 4, .99, true }, 0x22966a2f2f33e925},
		"penalties": {func(p *Params) {
			p.RepetitionPenalty, p.FrequencyPenalty, p.DRYMultiplier, p.NoRepeatNgramSize = 1.1, .3, .8, 4
		}, 0x482f3ad483091193},
		"xtc and dynatemp": {func(p *Params) { p.XTCProbability, p.DynatempRange = .5, .5 }, 0xf3bf4f3691d5e4f0},
		"mirostat 1":       {func(p *Params) { p.Mirostat = 1 }, 0xa4eadfafdfddaa},
		"mirostat 2":       {func(p *Params) { p.Mirostat = 2 }, 0xc4f6af6ecb2f2759},
		"adaptive":         {func(p *Params) { p.AdaptiveTarget = .3 }, 0xcaf6988ad55b7430},
	} {
		m := hashModel{99, 3000, 12}
		ch := chain(t, with(c.change), m.size, 1, 2, 3)
		history := []int32{1, 2, 3}
		h := fnv.New64a()
		for range 150 {
			id := sample(t, ch, m.logits(history))
			ch.Accept(id)
			history = append(history, id)
			h.Write([]byte{byte(id), byte(id >> 8)})
		}
		if h.Sum64() != c.want {
			t.Errorf("%s: %#x", name, h.Sum64())
		}
	}
}
