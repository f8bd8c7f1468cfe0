package promptlookup

import (
	"math"
	"math/rand/v2"
	"testing"
)

// zipf is text with the frequencies of words, in which phrases come back.
func zipf(n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]int32, 0, n)
	for len(text) < n {
		if len(text) > 100 && r.IntN(20) == 0 {
			from := r.IntN(len(text) - 50)
			text = append(text, text[from:from+10+r.IntN(40)]...)
			continue
		}
		text = append(text, int32(math.Pow(float64(vocab), r.Float64()))-1)
	}
	return text[:n]
}

func benchmarkTokens(b *testing.B, text []int32) {
	b.ReportAllocs()
	var proposal []int32
	for b.Loop() {
		x := NewIndex()
		for _, t := range text {
			x.Append(t)
			proposal = proposal[:0]
			m := x.Match()
			for len(proposal) < min(8, m.Len()) {
				token, next, ok := x.Next(m, 2)
				if !ok {
					break
				}
				proposal = append(proposal, token)
				m = next
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/token")
}

// The cost of a token: append it, match, propose up to 8.
func BenchmarkLookupPerToken(b *testing.B) {
	b.Run("words_4k", func(b *testing.B) { benchmarkTokens(b, zipf(4096, 50000)) })
	b.Run("words_32k", func(b *testing.B) { benchmarkTokens(b, zipf(32768, 50000)) })
	b.Run("one_token_32k", func(b *testing.B) { benchmarkTokens(b, make([]int32, 32768)) })
	period := make([]int32, 32768)
	for i := range period {
		period[i] = int32(i % 300)
	}
	b.Run("period_300_32k", func(b *testing.B) { benchmarkTokens(b, period) })
}
