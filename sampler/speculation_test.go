package sampler

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute/vocab"
)

// hashModel is a language model whose logits are a hash of the last two tokens.
type hashModel struct {
	seed  uint64
	size  int
	blunt float32
}

func (m hashModel) logits(history []int32) []float32 {
	h := m.seed
	for _, t := range lastOf(history, 2) {
		h = (h ^ uint64(t)) * 0x9E3779B97F4A7C15
	}
	z := make([]float32, m.size)
	for i := range z {
		a, b := vocab.Noise{Seed: h}.Word(int32(i)), vocab.Noise{Seed: h, Purpose: 1}.Word(int32(i))
		z[i] = (float32(a>>8)/(1<<24) + float32(b>>8)/(1<<24)) * m.blunt
	}
	return z
}

// proposer makes up to k proposals after history; fork is its tentative chain.
type proposer func(t *rapid.T, history []int32, k int, fork *Chain) []int32

// lookup copies what followed the last occurrence of the last token.
func lookup(_ *rapid.T, history []int32, k int, _ *Chain) []int32 {
	if len(history) == 0 {
		return nil
	}
	last := history[len(history)-1]
	for i := len(history) - 2; i >= 0; i-- {
		if history[i] == last {
			return slices.Clone(history[i+1 : min(len(history), i+1+k)])
		}
	}
	return nil
}

func random(size int) proposer {
	return func(t *rapid.T, _ []int32, k int, _ *Chain) []int32 {
		return rapid.SliceOfN(rapid.Int32Range(0, int32(size-1)), 0, k).Draw(t, "proposal")
	}
}

// drafting proposes what a similar model draws with the same chain and noise.
func drafting(m hashModel) proposer {
	return func(t *rapid.T, history []int32, k int, fork *Chain) []int32 {
		var out []int32
		h := slices.Clone(history)
		for range k {
			z := m.logits(h)
			for i := range z {
				z[i] += float32(vocab.Noise{Seed: 5, Position: uint32(len(h))}.Word(int32(i))>>8) / (1 << 24) * .3
			}
			d, err := fork.Sample(z)
			if err != nil {
				break
			}
			fork.Accept(d.Token)
			h, out = append(h, d.Token), append(out, d.Token)
		}
		return out
	}
}

// Given any parameters, seed, width and drafter, when tokens are verified in
// blocks, then the stream, its log probabilities and the chain's state are
// those of drawing one by one.
func TestSpeculationGivesTheStreamOfPlainDecoding(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		m := hashModel{rapid.Uint64().Draw(t, "model"), 24, 6}
		p := drawParams(t, m.size)
		p.Logprobs, p.TopLogprobs = true, 2
		p.LogprobsMode = rapid.SampledFrom([]LogprobsMode{LogprobsRaw, LogprobsProcessed}).Draw(t, "mode")
		p.DRYSequenceBreakers = []Breaker{{Token: 4}}
		prompt := drawPrompt(t, m.size)
		env := Env{Vocab: m.size, EOS: []int32{1}, Pool: NewPool()}
		plain, err := NewChain(p, env, prompt, 0)
		require.NoError(t, err)
		block, err := NewChain(p, env, prompt, 0)
		require.NoError(t, err)

		const n = 40
		var want []Draw
		history := slices.Clone(prompt)
		for range n {
			d, err := plain.Sample(m.logits(history))
			if err != nil {
				break // everything is banned: the other side must say so too
			}
			d.Top = slices.Clone(d.Top)
			want = append(want, d)
			plain.Accept(d.Token)
			history = append(history, d.Token)
		}

		width := rapid.IntRange(1, 16).Draw(t, "width")
		propose := rapid.SampledFrom([]proposer{lookup, random(m.size), drafting(m)}).Draw(t, "drafter")
		var got []Draw
		history = slices.Clone(prompt)
	rounds:
		for len(got) < n {
			fork := block.Fork()
			proposal := propose(t, history, min(width, n-len(got)-1), fork)
			fork.Release()
			// The forward of history + proposal gives one row for each prefix.
			for i := 0; i <= len(proposal); i++ {
				at := append(slices.Clone(history), proposal[:i]...)
				at = at[:len(prompt)+len(got)]
				d, err := block.Sample(m.logits(at))
				if err != nil {
					break rounds
				}
				d.Top = slices.Clone(d.Top)
				got = append(got, d)
				block.Accept(d.Token)
				if i < len(proposal) && proposal[i] != d.Token {
					break
				}
				if i < len(proposal) {
					accepted++
				}
			}
			history = slices.Clone(prompt)
			for _, d := range got {
				history = append(history, d.Token)
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, plain.history.table.entries, block.history.table.entries)
		require.Equal(t, plain.feedback, block.feedback)
		require.Equal(t, plain.Position(), block.Position())
	})
	require.Greater(t, accepted, 20, "some proposals are accepted")
}

func TestForksAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := hashModel{rapid.Uint64().Draw(t, "model"), 24, 6}
		p := drawParams(t, m.size)
		prompt := drawPrompt(t, m.size)
		a, err := NewChain(p, Env{Vocab: m.size}, prompt, 0)
		require.NoError(t, err)
		b, err := NewChain(p, Env{Vocab: m.size}, prompt, 0)
		require.NoError(t, err)
		history := slices.Clone(prompt)
		for range 12 {
			f := a.Fork()
			for i := range rapid.IntRange(0, 5).Draw(t, "wild") {
				f.Accept(int32(i % m.size))
			}
			z := m.logits(history)
			d, err := a.Sample(z)
			e, err2 := b.Sample(z)
			require.Equal(t, err, err2)
			if err != nil {
				return
			}
			require.Equal(t, d, e)
			a.Accept(d.Token)
			b.Accept(d.Token)
			if rapid.Bool().Draw(t, "release") {
				f.Release()
			}
			history = append(history, d.Token)
		}
	})
}

// Given the same seed, then a position's draw does not depend on how its chain
// got there, and samples differ from each other.
func TestNoiseIsAddressedByPositionAndSample(t *testing.T) {
	z := distributionLogits()
	p := with()
	long := chain(t, p, len(z), 1, 2, 3, 4, 5)
	short := chain(t, p, len(z), 1, 2)
	for range 3 {
		short.Accept(9)
	}
	require.Equal(t, long.Position(), short.Position())
	require.Equal(t, sample(t, long, z), sample(t, short, z))
	streams := map[string]bool{}
	for i := range 4 {
		c, err := NewChain(p, Env{Vocab: len(z)}, nil, i)
		require.NoError(t, err)
		s := ""
		for range 20 {
			id := sample(t, c, z)
			c.Accept(id)
			s += string(rune(id))
		}
		streams[s] = true
	}
	require.Len(t, streams, 4)
}

// Shared noise: two models that overlap draw the same token at least as often
// as the bound Σᵢ 1/Σⱼ max(pⱼ/pᵢ, qⱼ/qᵢ) allows.
func TestSharedNoiseMakesSimilarModelsAgree(t *testing.T) {
	z := distributionLogits()
	y := slices.Clone(z)
	for i := range y {
		y[i] += .5 * float32(i%5)
	}
	p, q := softmax(z, 1), softmax(y, 1)
	bound, independent := 0.0, 0.0
	for i := range p {
		sum := 0.0
		for j := range p {
			sum += max(p[j]/p[i], q[j]/q[i])
		}
		bound += 1 / sum
		independent += p[i] * q[i]
	}
	c := chain(t, with(), len(z))
	equal := 0
	for i := range draws {
		c.length = i
		if sample(t, c, z) == sample(t, c, y) {
			equal++
		}
	}
	rate := float64(equal) / draws
	require.InDelta(t, bound, rate, .02)
	require.Greater(t, rate, 2*independent)
}
