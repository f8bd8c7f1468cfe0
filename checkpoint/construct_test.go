package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTensorsMadeFromMemoryAreCheckedLikeThoseOfFiles(t *testing.T) {
	w, err := NewTensor("w", Q8_0, []int{2, 32}, make([]byte, 68))
	require.NoError(t, err)
	require.Equal(t, []int{2, 32}, []int{w.Rows(), w.Cols()})
	w.DropPages(0, 2) // no mapping, nothing to do
	for _, bad := range []struct {
		typ   Type
		shape []int
		bytes int
	}{{Q8_0, []int{2, 33}, 68}, {Q8_0, []int{2, 32}, 67}, {F32, []int{-1}, 0}, {MLX4, []int{1, 8}, 4}, {numTypes, []int{1}, 1}} {
		_, err := NewTensor("w", bad.typ, bad.shape, make([]byte, bad.bytes))
		require.ErrorContains(t, err, "tensor w", "%v", bad)
	}

	scales, err := NewTensor("s", F32, []int{2, 1}, make([]byte, 8))
	require.NoError(t, err)
	m, err := NewMLXTensor("m", MLX4, []int{2, 32}, make([]byte, 32), scales, scales, 32)
	require.NoError(t, err)
	m.Float32Row(1, make([]float32, 32))
	for _, group := range []int{0, 16, 33} {
		_, err = NewMLXTensor("m", MLX4, []int{2, 32}, make([]byte, 32), scales, scales, group)
		require.ErrorContains(t, err, "tensor m")
	}
	_, err = NewMLXTensor("m", MLX4, []int{2, 32}, make([]byte, 32), scales, nil, 32)
	require.ErrorContains(t, err, "biases")
}
