package sampler

import (
	"cmp"
	"slices"
)

// BeamScore ranks a hypothesis: the sum of its log probabilities divided by
// length^alpha (alpha 0: no normalization, 1: the mean). A hypothesis of no
// tokens scores its sum.
func BeamScore(sum float64, length int, alpha float64) float64 {
	if length < 1 {
		return sum
	}
	return sum / pow(float64(length), alpha)
}

// Extension appends Token to the beam with index Beam.
type Extension struct {
	Beam    int
	Token   int32
	Logprob float64 // of the token
	Sum     float64 // of the beam with it, without diversity penalties
}

// BeamWidth returns how many candidates ExtendBeams wants per beam: twice the
// size of a group, so that end tokens cannot starve it.
func (p *Params) BeamWidth() int { return 2 * (p.Beams / p.BeamGroups) }

// ExtendBeams chooses the next beams. sums[b] is the log probability of beam b
// and candidates[b] its most likely next tokens (see [Chain.Top]); beams of the
// same group are neighbours, a beam without candidates is not extended. Each
// group in turn takes its best extensions, where a token already taken by an
// earlier group at this step counts DiversityPenalty less per time (Vijayakumar
// et al., 2016). It returns up to BeamWidth extensions per group, best first,
// for the caller to set finished ones aside and go on with the first
// Beams/BeamGroups of the others. Ties go to the lower beam, then the lower
// token. With one beam it is greedy decoding.
func (p *Params) ExtendBeams(sums []float64, candidates [][]TokenLogprob) [][]Extension {
	size := p.Beams / p.BeamGroups
	taken := map[int32]int{}
	groups := make([][]Extension, p.BeamGroups)
	for g := range groups {
		type scored struct {
			Extension
			score float64
		}
		var all []scored
		for b := g * size; b < min((g+1)*size, len(candidates)); b++ {
			for _, c := range candidates[b] {
				e := Extension{b, c.Token, c.Logprob, sums[b] + c.Logprob}
				all = append(all, scored{e, e.Sum - float64(p.DiversityPenalty*float64(taken[c.Token]))})
			}
		}
		slices.SortFunc(all, func(a, b scored) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Beam, b.Beam), cmp.Compare(a.Token, b.Token))
		})
		for i, s := range all[:min(len(all), p.BeamWidth())] {
			groups[g] = append(groups[g], s.Extension)
			if i < size {
				taken[s.Token]++
			}
		}
	}
	return groups
}
