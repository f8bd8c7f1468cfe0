package checkpoint_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/internal/testmodels"
)

func TestRealGGUFFilesOpenAndEveryWeightIsFinite(t *testing.T) {
	for _, tc := range []struct {
		name   string
		expect func(t *testing.T, c *checkpoint.Config)
	}{
		{"smollm2-135m-instruct", func(t *testing.T, c *checkpoint.Config) {
			require.Equal(t, "llama", c.Architecture)
			require.Equal(t, []int{576, 30, 9, 3, 64, 1536, 49152, 8192},
				[]int{c.HiddenSize, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.VocabSize, c.Context})
			require.Equal(t, []int{0, 2}, c.EOS)
			require.Equal(t, 1, c.BOS)
			require.True(t, c.TieEmbeddings)
			require.True(t, c.RopeInterleaved)
			require.False(t, c.NormPlusOne)
			require.InDelta(t, 100000, c.RopeTheta, 0)
			require.Nil(t, c.LayerTypes)
		}},
		{"gemma3-270m", func(t *testing.T, c *checkpoint.Config) {
			require.Equal(t, "gemma3", c.Architecture)
			require.Equal(t, []int{640, 18, 4, 1, 256, 2048, 262144, 32768},
				[]int{c.HiddenSize, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.VocabSize, c.Context})
			require.Equal(t, []int{1, 106}, c.EOS)
			require.Equal(t, 2, c.BOS)
			require.True(t, c.TieEmbeddings)
			require.False(t, c.NormPlusOne, "gguf norms hold 1+w already")
			require.InDelta(t, 1e6, c.RopeTheta, 0)
			require.InDelta(t, 10000, c.RopeLocalTheta, 0)
			require.Equal(t, 512, c.SlidingWindow)
			require.Len(t, c.LayerTypes, 18)
			require.Equal(t, checkpoint.SlidingAttention, c.LayerTypes[0])
			require.Equal(t, checkpoint.FullAttention, c.LayerTypes[5])
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := checkpoint.Open(testmodels.Path(t, tc.name))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			require.Equal(t, checkpoint.FormatGGUF, c.Format())
			tc.expect(t, c.Config())

			again, err := checkpoint.Open(c.Path())
			require.NoError(t, err)
			defer again.Close()
			require.Equal(t, c.Hash(), again.Hash())

			byType := map[string]int{}
			for _, tensor := range c.Tensors() {
				byType[tensor.Type.String()]++
				row := make([]float32, tensor.Cols())
				for i := 0; i < tensor.Rows(); i += 1 + tensor.Rows()/64 {
					tensor.Float32Row(i, row)
					for _, v := range row {
						require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), "%s row %d", tensor.Name, i)
					}
				}
				tensor.DropPages(0, tensor.Rows())
			}
			t.Logf("%d tensors: %v", len(c.Tensors()), byType)
		})
	}
}
