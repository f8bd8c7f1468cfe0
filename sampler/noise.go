package sampler

import "surmise/compute/vocab"

// Purposes of the noise at one position. Words of different purposes are
// independent of each other.
const (
	purposeDraw uint32 = 0 // the Gumbel noise of each token
	purposeXTC  uint32 = 1 // whether XTC acts at this position; word 0
	// purposeTail marks the 32 further bits of a word under 2⁸.
	purposeTail uint32 = 1 << 31
)

// Uniform addresses the noise of a stream: every value is a pure function of
// (Seed, Sample, Position, token id).
func noiseAt(seed uint64, sample, position int, purpose uint32) vocab.Noise {
	return vocab.Noise{Seed: seed, Position: uint32(position), Sample: uint32(sample), Purpose: purpose}
}

// gumbel returns g = −log(−log1p(−u)) for the noise word of token id, where
// u = (word + ½)/2³². A word under 2⁸ is extended by 32 more bits, so that the
// upper tail is right to 2⁻⁶⁴ (g ≤ 45.1).
func gumbel(n vocab.Noise, id int32, word uint32) float64 {
	if word >= 1<<8 {
		// 1 − u has at most 33 bits: exact.
		return -log(-log(1 - float64(float64(word)+0.5)/(1<<32)))
	}
	n.Purpose |= purposeTail
	low := uint64(word)<<32 | uint64(n.Word(id))
	u := float64(float64(low)+0.5) / (1 << 64)
	// −log1p(−u) = u + u²/2 + u³/3 + …; u < 2⁻²⁴, so three terms are exact enough.
	u2 := float64(u * u)
	e := u + (float64(u2/2) + float64(float64(u2*u)/3))
	return -log(e)
}
