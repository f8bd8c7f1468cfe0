package promptlookup

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// follower is one exhaustive search: where pattern ends inside text, before its
// last position, which token followed most often, the latest among equals.
func follower(text, pattern []int32) (token int32, ok bool) {
	counts, latest := map[int32]int{}, map[int32]int{}
	for e := len(pattern); e < len(text); e++ {
		if slices.Equal(text[e-len(pattern):e], pattern) {
			counts[text[e]]++
			latest[text[e]] = e
			ok = true
		}
	}
	for t := range counts {
		if c, best := counts[t], counts[token]; c > best || c == best && latest[t] > latest[token] {
			token = t
		}
	}
	return token, ok
}

// longest is the longest suffix of pattern, of at most limit tokens, that was
// followed by something in text.
func longest(text, pattern []int32, limit int) []int32 {
	for n := min(limit, len(pattern)); n > 0; n-- {
		if _, ok := follower(text, pattern[len(pattern)-n:]); ok {
			return pattern[len(pattern)-n:]
		}
	}
	return nil
}

// naive is what an index over text should propose.
func naive(text []int32, minimum, width int) (match int, proposal []int32) {
	pattern := longest(text, text, len(text)-1)
	match = len(pattern)
	for len(proposal) < width && len(pattern) >= max(minimum, 1) {
		token, ok := follower(text, pattern)
		if !ok {
			pattern = longest(text, pattern, len(pattern)-1)
			continue
		}
		proposal = append(proposal, token)
		pattern = append(slices.Clone(pattern), token)
	}
	return match, proposal
}

func propose(x *Index, minimum, width int) (match int, proposal []int32) {
	m := x.Match()
	match = m.Len()
	for len(proposal) < width {
		token, next, ok := x.Next(m, minimum)
		if !ok {
			break
		}
		proposal = append(proposal, token)
		m = next
	}
	return match, proposal
}

func TestIndexEqualsExhaustiveSearchAfterEveryToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.Int32Range(1, 6).Draw(t, "alphabet")
		text := rapid.SliceOfN(rapid.Int32Range(0, alphabet), 1, 100).Draw(t, "text")
		minimum := rapid.IntRange(1, 4).Draw(t, "minimum")
		x := NewIndex()
		x.depth = len(text) // no context misses its credit
		for i, token := range text {
			x.Append(token)
			match, proposal := propose(x, minimum, 12)
			wantMatch, want := naive(text[:i+1], minimum, 12)
			require.Equal(t, wantMatch, match, "match length of %v", text[:i+1])
			require.Equal(t, want, proposal, "proposal for %v", text[:i+1])
		}
	})
}

func TestIndexOfLongRepetitiveTextFindsTheLongestMatchAndCopiesFromIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.SliceOfN(rapid.Int32Range(0, 3), 1, 30).Draw(t, "period")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := NewIndex()
		var text []int32
		for i := range 400 {
			token := period[i%len(period)]
			if r.IntN(40) == 0 {
				token = r.Int32N(4)
			}
			text = append(text, token)
			x.Append(token)
		}
		match, proposal := propose(x, 1, 8)
		require.Equal(t, len(longest(text, text, len(text)-1)), match)
		if match == 0 { // the last token is the only one of its kind
			require.Empty(t, proposal)
			return
		}
		require.NotEmpty(t, proposal)
		_, ok := follower(text, append(slices.Clone(text[len(text)-match:]), proposal[0])[:match])
		require.True(t, ok)
	})
}

func TestIndexCloneGoesItsOwnWay(t *testing.T) {
	x := NewIndex()
	x.Append(1, 2, 3, 1, 2)
	y := x.Clone()
	y.Append(9, 1, 2, 9, 1, 2)
	_, px := propose(x, 1, 1)
	_, py := propose(y, 1, 1)
	require.Equal(t, []int32{3}, px)
	require.Equal(t, []int32{9}, py)
	require.Equal(t, 5, x.Len())
}

func TestIndexOfOneTokenRepeatedProposesItWithoutEnd(t *testing.T) {
	x := NewIndex()
	for range 5000 {
		x.Append(7)
	}
	match, proposal := propose(x, 2, 64)
	require.Equal(t, 4999, match)
	require.Equal(t, slices.Repeat([]int32{7}, 64), proposal)
}
