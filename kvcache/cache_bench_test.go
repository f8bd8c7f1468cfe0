package kvcache_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRound is the bookkeeping of one round: a block appended and cut back.
func BenchmarkRound(b *testing.B) {
	c, _ := sample(b, 4000, 0, 512)
	s := c.Open()
	require.NoError(b, s.Append(tokens(4096, 0)))
	block := tokens(9, 7)
	b.ReportAllocs()
	for range b.N {
		if s.Append(block) != nil || s.Truncate(s.Len()-9) != nil {
			b.Fatal("no room")
		}
	}
}

// BenchmarkMatch finds a published prompt of 4096 tokens again.
func BenchmarkMatch(b *testing.B) {
	c, _ := sample(b, 4000, 0)
	prompt := tokens(4097, 0)
	s := c.Open()
	require.NoError(b, s.Append(prompt))
	s.Publish()
	b.ReportAllocs()
	for range b.N {
		m := c.Match(prompt)
		if m.Len() != 4096 {
			b.Fatal("not found")
		}
		m.Close()
	}
}
