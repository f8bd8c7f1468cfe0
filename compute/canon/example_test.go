package canon_test

import (
	"fmt"

	"surmise/compute/canon"
)

// A product and a sum are rounded once; two roundings would give 0.
func ExampleFMA() {
	a := float32(1) + 1.0/(1<<13)
	fmt.Println(canon.FMA(a, a, -float32(a*a)))
	// Output: 1.4901161e-08
}

// Activations become int8 in blocks of 32 that share a scale.
func ExampleQuantize() {
	x := make([]float32, 32)
	x[0], x[1], x[2] = 1, -0.5, 0.25
	a := canon.Quantize(x)
	fmt.Println(a.Q[:4], a.Sum)
	// Output: [127 -64 32 0] [95]
}
