//go:build !purego

package cpu

import "surmise/checkpoint"

// avx512Kernels is the table for processors with AVX-512 and VNNI.
func avx512Kernels() *kernels {
	a := &assembly{
		// Tiles of 7 and 8 rows exist, but two of 4 are faster than one of 8.
		name: "avx512", tile: 6, floatTile: 6, fourRows: 6, vectors: vectorsAVX512,
		linear: map[checkpoint.Type]linearASM{
			checkpoint.Q8_0: linearQ8AVX512, checkpoint.Q4_0: linearQ4AVX512, checkpoint.Q4_1: linearQ4MinAVX512,
			checkpoint.Q5_0: linearQ5AVX512, checkpoint.Q5_1: linearQ5MinAVX512, checkpoint.Q4_K: linearQ4KAVX512,
			checkpoint.Q5_K: linearQ5KAVX512, checkpoint.Q6_K: linearQ6KAVX512, checkpoint.MLX4: linearMLX4AVX512,
			checkpoint.MLX8: linearMLX8AVX512,
		},
		linearFloat: map[checkpoint.Type]linearFloatASM{
			checkpoint.F32: linearFloatAVX512, checkpoint.F16: linearHalfAVX512, checkpoint.BF16: linearBFloatAVX512,
		},
		quantize: quantizeAVX512, norm: normAVX512, rotary: rotaryAVX512,
		silu: gateSiLUAVX512, geluTanh: gateGELUTanhAVX512, sigmoid: gateSigmoidAVX512,
		add: addAVX512, scale: scaleAVX512, argmax: argmaxAVX512, toHalf: toHalfAVX512,
		scoresHalf: scoresHalfAVX512, scoresFloat: scoresFloatAVX512,
		valuesHalf: valuesHalfAVX512, valuesFloat: valuesFloatAVX512,
		softmax: softmaxAVX512, combine: combineAVX512,
	}
	return a.kernels()
}

// vectorsAVX512: four vectors for six pairs fill 24 of the 32 registers.
func vectorsAVX512(_, n int) int {
	switch {
	case n >= 4:
		return 4
	case n >= 2:
		return 2
	}
	return 1
}
