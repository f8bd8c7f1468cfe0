//go:build !purego

package cpu

import "surmise/checkpoint"

// neonKernels is the table for processors with NEON and its dot product.
func neonKernels() *kernels {
	a := &assembly{
		name: "neon", tile: 4, floatTile: 4, fourRows: 1, vectors: vectorsNEON,
		linear: map[checkpoint.Type]linearASM{
			checkpoint.Q8_0: linearQ8NEON, checkpoint.Q4_0: linearQ4NEON, checkpoint.Q4_1: linearQ4MinNEON,
			checkpoint.Q5_0: linearQ5NEON, checkpoint.Q5_1: linearQ5MinNEON, checkpoint.Q4_K: linearQ4KNEON,
			checkpoint.Q5_K: linearQ5KNEON, checkpoint.Q6_K: linearQ6KNEON, checkpoint.MLX4: linearMLX4NEON,
			checkpoint.MLX8: linearMLX8NEON,
		},
		linearFloat: map[checkpoint.Type]linearFloatASM{
			checkpoint.F32: linearFloatNEON, checkpoint.F16: linearHalfNEON, checkpoint.BF16: linearBFloatNEON,
		},
		quantize: quantizeNEON, norm: normNEON, rotary: rotaryNEON,
		silu: gateSiLUNEON, geluTanh: gateGELUTanhNEON, sigmoid: gateSigmoidNEON,
		add: addNEON, scale: scaleNEON, argmax: argmaxNEON, toHalf: toHalfNEON,
		scoresHalf: scoresHalfNEON, scoresFloat: scoresFloatNEON,
		valuesHalf: valuesHalfNEON, valuesFloat: valuesFloatNEON,
		softmax: softmaxNEON, combine: combineNEON,
	}
	return a.kernels()
}

// vectorsNEON: a vector takes four of the 32 registers, and the sums no more
// than 24.
func vectorsNEON(pairs, n int) int {
	switch {
	case n >= 4 && pairs == 1:
		return 4
	case n >= 2 && pairs <= 3:
		return 2
	}
	return 1
}
