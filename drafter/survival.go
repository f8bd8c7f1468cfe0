package drafter

import (
	"math"
	"math/bits"
)

// survival estimates the chance that a proposed token equals the target's, given
// that those before it in the block did: counts that fade, by position in the
// block and by what the drafter said of its own confidence.
type survival struct {
	// sure are counts with a known confidence, by confidence and position;
	// blind are all counts by position, for before anything is proposed.
	sure  [confidenceBins][positionBins]beta
	blind [positionBins]beta
}

// beta is the count of survivors and others.
type beta struct{ yes, no float64 }

// A count of so many older ones fades by 1/e.
const survivalMemory = 128

func (b *beta) learn(yes bool) {
	const keep = 1 - 1.0/survivalMemory
	b.yes *= keep
	b.no *= keep
	if yes {
		b.yes++
	} else {
		b.no++
	}
}

// mean is the estimate when prior counts for weight observations.
func (b *beta) mean(prior, weight float64) float64 {
	return (b.yes + prior*weight) / (b.yes + b.no + weight)
}

const (
	positionBins   = 6
	confidenceBins = 10
)

// positionBin: 0, 1, 2–3, 4–7, 8–15, 16 and on.
func positionBin(i int) int { return min(bits.Len(uint(i)), positionBins-1) }

// confidenceBin is by tenths of a drafter's own probability, or, for a copy, by
// the length of the match it rests on.
func confidenceBin(confidence float32, match int) int {
	if match > 0 {
		return min(int(2*math.Log2(float64(match))), confidenceBins-1)
	}
	return min(int(confidence*confidenceBins), confidenceBins-1)
}

// Priors before there is evidence, and how many observations they count for. A
// drafter's own probability is taken at its word, halfway; a copy is trusted more
// the longer the match.
const (
	priorWeight = 3
	// rowWeight is how much what is known of all rows counts for one of them: a
	// few misfortunes at the start of a text say little about the rest of it.
	rowWeight  = 16
	blindPrior = 0.5
)

func surePrior(confidence float32, match int) float64 {
	if match > 0 {
		return 1 - 0.9/(1+0.35*float64(match))
	}
	return 0.25 + 0.6*float64(confidence)
}

// of is the chance for token i of a proposal with a known confidence.
func (s *survival) of(i int, confidence float32, match int) float64 {
	b := &s.sure[confidenceBin(confidence, match)][positionBin(i)]
	return b.mean(surePrior(confidence, match), priorWeight)
}

// expect is the chance for token i of a proposal that is not made yet. own are
// the row's own counts, which the estimate of all rows is the prior of.
func (s *survival) expect(i int, own *survival) float64 {
	all := s.blind[positionBin(i)].mean(blindPrior, priorWeight)
	if own == nil {
		return all
	}
	return own.blind[positionBin(i)].mean(all, rowWeight)
}

// learn counts token i of a proposal that was compared with the stream.
func (s *survival) learn(i int, confidence float32, match int, yes bool) {
	p := positionBin(i)
	s.sure[confidenceBin(confidence, match)][p].learn(yes)
	s.blind[p].learn(yes)
}

// vain counts slot i, which was asked for and not filled.
func (s *survival) vain(i int) { s.blind[positionBin(i)].learn(false) }
