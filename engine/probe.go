package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"surmise/drafter"
	"surmise/model"
)

// Probe is what the width probe found: whether blocks of several tokens give the
// logits of single steps, bit for bit, with the checkpoint and on the device at
// hand. The numeric canon says they do; the probe looks.
type Probe struct {
	// Exact is the answer.
	Exact bool `json:"exact"`
	// Widths are the block sizes compared, over Positions positions.
	Widths    []int `json:"widths"`
	Positions int   `json:"positions"`
	// Difference says where the first difference was; empty if Exact.
	Difference string `json:"difference,omitempty"`
}

// probePasses are the blocks that the positions compared are cut into, one pass
// after the other: kernels treat single rows, few rows and many differently.
var probePasses = [][]int{{8}, {2, 4, 2}, {3, 5}}

const probePositions = 8

// ProbeWidth compares blocks with single steps on random tokens. It costs
// fifteen small forwards.
func ProbeWidth(target model.Target) (Probe, error) {
	p := Probe{Exact: true, Widths: []int{2, 3, 4, 5, 8}, Positions: probePositions}
	spec := target.Spec()
	rng := rand.New(rand.NewPCG(1, 2))
	prefix := min(24, max(spec.Context-probePositions, 0))
	tokens := make([]int32, min(prefix+probePositions, spec.Context))
	for i := range tokens {
		tokens[i] = int32(rng.IntN(spec.Vocab))
	}
	if len(tokens) <= probePositions {
		// A context this short has no room for a block behind a prefix.
		return Probe{Exact: true}, nil
	}
	seq := target.Cache().Open()
	defer seq.Close()
	b := new(model.Batch)
	forward := func(tokens []int32, logits int) error {
		b.Rows = append(b.Rows[:0], model.Row{Seq: seq, Tokens: tokens, Logits: logits})
		return target.Forward(b)
	}
	if err := forward(tokens[:prefix], 0); err != nil {
		return p, fmt.Errorf("width probe: %w", err)
	}
	var single [probePositions][]float32
	for i := range single {
		if err := forward(tokens[prefix+i:prefix+i+1], 1); err != nil {
			return p, fmt.Errorf("width probe: %w", err)
		}
		single[i] = slices.Clone(b.Logits(0, 0))
	}
	for _, pass := range probePasses {
		if err := seq.Truncate(prefix); err != nil {
			return p, fmt.Errorf("width probe: %w", err)
		}
		at := 0
		for _, width := range pass {
			if err := forward(tokens[prefix+at:prefix+at+width], width); err != nil {
				return p, fmt.Errorf("width probe: %w", err)
			}
			for i := range width {
				if id := differs(single[at+i], b.Logits(0, i)); id >= 0 && p.Exact {
					p.Exact = false
					p.Difference = fmt.Sprintf("token %d of a block of %d: logit %d is %v, but %v in a single step",
						i, width, id, b.Logits(0, i)[id], single[at+i][id])
				}
			}
			at += width
		}
	}
	return p, nil
}

// differs is the first index at which two rows differ in a bit, −1 if none.
func differs(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// Apply is a contract as it holds on this machine: without exact blocks, greedy
// decoding may part at near-ties, and sampling keeps the distribution only.
func (p Probe) Apply(c drafter.Contract) drafter.Contract {
	if !p.Exact {
		c.Greedy, c.Sampling = drafter.UpToNearTies, drafter.Distribution
	}
	return c
}
