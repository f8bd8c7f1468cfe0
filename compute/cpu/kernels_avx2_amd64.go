//go:build !purego

package cpu

import "surmise/checkpoint"

// avx2Kernels is the table for processors with AVX2, FMA and F16C.
func avx2Kernels() *kernels {
	a := &assembly{
		name: "avx2", tile: 4, floatTile: 6, fourRows: 1, vectors: vectorsAVX2,
		linear: map[checkpoint.Type]linearASM{
			checkpoint.Q8_0: linearQ8AVX2, checkpoint.Q4_0: linearQ4AVX2, checkpoint.Q4_1: linearQ4MinAVX2,
			checkpoint.Q5_0: linearQ5AVX2, checkpoint.Q5_1: linearQ5MinAVX2, checkpoint.Q4_K: linearQ4KAVX2,
			checkpoint.Q5_K: linearQ5KAVX2, checkpoint.Q6_K: linearQ6KAVX2, checkpoint.MLX4: linearMLX4AVX2,
			checkpoint.MLX8: linearMLX8AVX2,
		},
		linearFloat: map[checkpoint.Type]linearFloatASM{
			checkpoint.F32: linearFloatAVX2, checkpoint.F16: linearHalfAVX2, checkpoint.BF16: linearBFloatAVX2,
		},
		quantize: quantizeAVX2, norm: normAVX2, rotary: rotaryAVX2,
		silu: gateSiLUAVX2, geluTanh: gateGELUTanhAVX2, sigmoid: gateSigmoidAVX2,
		add: addAVX2, scale: scaleAVX2, argmax: argmaxAVX2, toHalf: toHalfAVX2,
		scoresHalf: scoresHalfAVX2, scoresFloat: scoresFloatAVX2,
		valuesHalf: valuesHalfAVX2, valuesFloat: valuesFloatAVX2,
		softmax: softmaxAVX2, combine: combineAVX2,
	}
	return a.kernels()
}

// vectorsAVX2: a vector takes two of the 16 registers, and about eight chains
// hide the latency of an fma.
func vectorsAVX2(pairs, n int) int {
	switch {
	case n >= 4 && pairs == 1:
		return 4
	case n >= 2 && pairs <= 3:
		return 2
	}
	return 1
}
