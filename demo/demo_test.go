package demo_test

import (
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/demo"
)

// limit is what the family may take in a binary, in bytes.
const limit = 16_000_000

func TestFamilyStaysWithinItsLimit(t *testing.T) {
	total := int64(0)
	err := fs.WalkDir(demo.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err, path)
		info, err := entry.Info()
		require.NoError(t, err, path)
		if !entry.IsDir() {
			total += info.Size()
		}
		return nil
	})
	require.NoError(t, err)
	require.LessOrEqual(t, total, int64(limit))
}

func TestGivenTheEmbeddedFilesWhenOpenedThenEveryWeightIsFiniteAndNotAllZero(t *testing.T) {
	for _, dir := range []string{demo.Target, demo.Draft, demo.MTP, demo.DFlash} {
		t.Run(dir, func(t *testing.T) {
			c := open(t, dir)
			require.NotEmpty(t, c.Tensors())
			for _, tensor := range c.Tensors() {
				sum := 0.0
				row := make([]float32, tensor.Cols())
				for i := range tensor.Rows() {
					tensor.Float32Row(i, row)
					for _, v := range row {
						sum += math.Abs(float64(v))
					}
				}
				require.False(t, math.IsNaN(sum) || math.IsInf(sum, 0), "%s has values that are not finite", tensor.Name)
				require.Positive(t, sum, "%s is all zero", tensor.Name)
			}
		})
	}
}

func TestGivenTargetAndDraftWhenComparedThenTheyShareOneTokenizer(t *testing.T) {
	target, err := fs.ReadFile(demo.FS(), demo.Target+"/tokenizer.json")
	require.NoError(t, err)
	draft, err := fs.ReadFile(demo.FS(), demo.Draft+"/tokenizer.json")
	require.NoError(t, err)
	require.Equal(t, target, draft)
}

func open(t *testing.T, dir string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.OpenFS(demo.FS(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
