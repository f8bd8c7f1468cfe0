package engine

import (
	"surmise/sampler"
	"surmise/verify"
)

// forcedChain draws tokens as its chain does and emits those of a recorded stream
// instead, as long as it lasts.
type forcedChain struct {
	*sampler.Chain
	left []int32
}

var _ verify.Chain = (*forcedChain)(nil)

// ArgmaxOnly is false: what is emitted is not the argmax.
func (c *forcedChain) ArgmaxOnly() bool { return false }

// Sample draws, for the time it takes and its log probabilities, and replaces the
// token.
func (c *forcedChain) Sample(logits []float32) (sampler.Draw, error) {
	d, err := c.Chain.Sample(logits)
	if len(c.left) > 0 {
		d.Token = c.left[0]
	}
	return d, err
}

// Accept goes on to the next token.
func (c *forcedChain) Accept(token int32) {
	c.Chain.Accept(token)
	c.left = c.left[min(1, len(c.left)):]
}

// draws is what a sample's rows draw with.
func (s *sequence) draws() verify.Chain {
	if s.request.Forced == nil {
		return s.chain
	}
	if s.forced == nil {
		s.forced = &forcedChain{s.chain, s.request.Forced}
	}
	return s.forced
}
