package sampler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkSample measures one token: Sample and Accept.
func BenchmarkSample(b *testing.B) {
	history := func(rng *rand.Rand, size int) []int32 {
		h := make([]int32, 4096)
		zipf := rand.NewZipf(rng, 1.2, 8, uint64(size-1))
		for i := range h {
			h[i] = int32(zipf.Uint64())
		}
		return h
	}
	for _, c := range []struct {
		name   string
		change func(*Params)
	}{
		{"greedy", func(p *Params) { p.Temperature = 0 }},
		{"plain", func(p *Params) {}},
		{"server", func(p *Params) { p.TopK, p.TopP, p.MinP, p.Temperature = 40, .9, .1, .8 }},
		{"server+repetition+frequency", func(p *Params) {
			p.TopK, p.TopP, p.MinP, p.Temperature = 40, .9, .1, .8
			p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = 1.1, .1, .1
		}},
		{"server+repetition+frequency+dry", func(p *Params) {
			p.TopK, p.TopP, p.MinP, p.Temperature = 40, .9, .1, .8
			p.RepetitionPenalty, p.FrequencyPenalty, p.DRYMultiplier = 1.1, .1, .8
		}},
		{"top-p", func(p *Params) { p.TopP = .95 }},
		{"typical", func(p *Params) { p.TypicalP = .9 }},
		{"mirostat2", func(p *Params) { p.Mirostat = 2 }},
		{"logprobs", func(p *Params) { p.Logprobs, p.TopLogprobs = true, 5 }},
	} {
		for _, size := range []int{32768, 131072, 262144} {
			b.Run(fmt.Sprintf("%s/%dk", c.name, size/1024), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(4, 4))
				z := gaussian(rng, size, 2.2)
				z[77] = 20
				ch := chain(b, with(c.change), size, history(rng, size)...)
				step := func() {
					if _, err := ch.Sample(z); err != nil {
						b.Fatal(err)
					}
					ch.length++
				}
				step()
				best := time.Hour
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					step()
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(len(ch.history.table.entries)), "distinct")
				b.ReportMetric(float64(best.Nanoseconds()), "best-ns/op") // of one token: steady on a busy machine
			})
		}
	}
}

func BenchmarkFork(b *testing.B) {
	c := chain(b, with(func(p *Params) { p.RepetitionPenalty, p.DRYMultiplier = 1.1, .8 }), 32768, make([]int32, 4096)...)
	for b.Loop() {
		c.Fork().Release()
	}
}
