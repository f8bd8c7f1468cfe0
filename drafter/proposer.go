package drafter

import (
	"errors"
	"fmt"
	"math"

	"surmise/compute/vocab"
	"surmise/sampler"
)

// ErrNaN is returned for draft logits that hold a NaN.
var ErrNaN = errors.New("draft logits hold a NaN")

// ParseNoise reads the setting of draft noise: "shared" (true) draws proposals
// at temperature > 0 with the target's own noise, "off" proposes the drafter's
// most likely tokens.
func ParseNoise(s string) (shared bool, err error) {
	switch s {
	case "shared":
		return true, nil
	case "off":
		return false, nil
	}
	return false, fmt.Errorf("draft noise %q: want shared or off", s)
}

// Proposer turns a drafter's logits into proposals. It keeps scratch memory
// between calls and is used by one goroutine at a time.
type Proposer struct{ maxima []float32 }

// Propose picks the token to propose from a drafter's logits [vocabulary, in
// the target's ids], and says how likely the drafter holds it, in [0, 1].
//
// With a chain (a fork of the row's own, at the position the logits are for)
// the token is what the target would draw if its logits were these: the same
// stages, the same noise. Without one it is the most likely token. The chain is
// not advanced.
func (p *Proposer) Propose(chain *sampler.Chain, z []float32) (token int32, confidence float32, err error) {
	if n := vocab.Blocks(len(z)); len(p.maxima) < n {
		p.maxima = make([]float32, n)
	}
	bm := p.maxima[:vocab.Blocks(len(z))]
	top, nan := vocab.Max(bm, z)
	if nan || math.IsInf(float64(top), 0) {
		return 0, 0, ErrNaN
	}
	if chain == nil || chain.ArgmaxOnly() {
		token = int32(vocab.Argmax(z, bm, top))
	} else {
		d, err := chain.Sample(z)
		if err != nil {
			return 0, 0, err
		}
		token = d.Token
	}
	mass, _ := vocab.Mass(z, bm, top, float32(math.Inf(-1)))
	return token, float32(float64(vocab.Weight(z[token]-top)) / float64(mass)), nil
}

// ForkChain is the chain to pass a row's draft logits through, with the function
// that gives it back: a copy of the row's own with shared noise, else none.
func (r *Row) ForkChain(sharedNoise bool) (chain *sampler.Chain, release func()) {
	if !sharedNoise || r.Chain == nil {
		return nil, func() {}
	}
	chain = r.Chain.Fork()
	return chain, chain.Release
}
