package checkpoint

import "testing"

// BenchmarkFloat32Row reports the speed of decoding, in bytes of float32.
func BenchmarkFloat32Row(b *testing.B) {
	for typ := F32; typ <= Q6_K; typ++ {
		b.Run(typ.String(), func(b *testing.B) {
			const cols = 4096
			data := make([]byte, cols/typ.BlockSize()*typ.BlockBytes())
			tensor, err := newTensor("x", typ, []int{1, cols}, data, nil)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]float32, cols)
			b.SetBytes(4 * cols)
			for b.Loop() {
				tensor.Float32Row(0, dst)
			}
		})
	}
}

// BenchmarkQuantize reports the speed of quantizing, in bytes of float32.
func BenchmarkQuantize(b *testing.B) {
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(i%97) - 48.25
	}
	for typ, quantize := range map[Type]func([]byte, []float32){Q8_0: QuantizeQ8_0, Q4_0: QuantizeQ4_0} {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, len(src)/32*typ.BlockBytes())
			b.SetBytes(int64(4 * len(src)))
			for b.Loop() {
				quantize(dst, src)
			}
		})
	}
}
