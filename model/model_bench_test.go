package model_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/internal/testmodels"
	"surmise/model"
)

// BenchmarkForward times a block of 1…16 rows behind 256 cached positions, all
// of whose logits are wanted: what a round of verification costs.
func BenchmarkForward(b *testing.B) {
	for _, name := range realModels {
		for _, rows := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
			b.Run(fmt.Sprintf("%s/rows=%d", name, rows), func(b *testing.B) {
				path := testmodels.Path(b, name)
				m := open(b, onCPU(b, 0), path, model.Options{Context: 512})
				seq := m.Cache().Open()
				forward(b, m, seq, 256, 0)
				forward(b, m, seq, rows, rows) // warm up
				require.NoError(b, seq.Truncate(256))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					forward(b, m, seq, rows, rows)
					require.NoError(b, seq.Truncate(256))
				}
				b.ReportMetric(float64(m.Spec().Bytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
	}
}

// BenchmarkPrefill times a prompt of 512 tokens.
func BenchmarkPrefill(b *testing.B) {
	for _, name := range realModels {
		b.Run(name, func(b *testing.B) {
			path := testmodels.Path(b, name)
			m := open(b, onCPU(b, 0), path, model.Options{Context: 512})
			for range b.N {
				seq := m.Cache().Open()
				forward(b, m, seq, 512, 1)
				seq.Close()
			}
			b.ReportMetric(512*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
