package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/checkpoint"
)

// packTypes are the types that are packed from blocks of a checkpoint.
var packTypes = []checkpoint.Type{
	checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q4_1, checkpoint.Q5_0, checkpoint.Q5_1,
	checkpoint.Q4_K, checkpoint.Q5_K, checkpoint.Q6_K,
}

// The loops in assembly pack any bytes as the plain ones do, and write nothing
// behind a group.
func TestPackLoopsAgreeWithThePlainOnes(t *testing.T) {
	for _, i := range implementations() {
		packs := archPacks(i.name)
		for _, typ := range packTypes {
			if packs[typ] == nil || !i.available {
				continue
			}
			t.Run(i.name+"/"+typ.String(), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { checkPack(t, typ, packs[typ]) })
			})
		}
	}
}

func checkPack(t *rapid.T, typ checkpoint.Type, fast packGroup) {
	cols := max(typ.BlockSize(), blockCols) * rapid.IntRange(1, 5).Draw(t, "blocks")
	m, size, err := newPackedMatrix(typ, groupRows, cols)
	require.NoError(t, err)
	want := [2][]byte{make([]byte, size.weights), make([]byte, size.scales)}
	m.bind(want[0], want[1], make([]float32, size.bias))
	p := &packer{typ: typ}
	var key [32]byte
	key[0] = byte(rapid.IntRange(0, 255).Draw(t, "seed"))
	random := rand.NewChaCha8(key)
	for o := range p.rows {
		p.rows[o] = make([]byte, cols/typ.BlockSize()*typ.BlockBytes())
		_, _ = random.Read(p.rows[o])
	}
	p.packBlocks(m, m.weights[:m.weightStride], m.scales[:m.scaleStride], groupRows)

	const margin, mark = 64, 0xa5
	got := [2][]byte{make([]byte, m.weightStride+margin), make([]byte, m.scaleStride+margin)}
	for _, g := range got {
		for i := range g {
			g[i] = mark
		}
	}
	fast(got[0][:m.weightStride], got[1][:m.scaleStride], &p.rows, cols)
	for i, n := range []int{m.weightStride, m.scaleStride} {
		require.Equal(t, want[i][:n], got[i][:n])
		for _, b := range got[i][n:] {
			require.EqualValues(t, mark, b)
		}
	}
}

// BenchmarkPack repacks a matrix that stays in the caches.
func BenchmarkPack(b *testing.B) {
	const cols = 1024
	for _, i := range implementations() {
		packs := archPacks(i.name)
		for _, typ := range packTypes {
			b.Run(i.name+"/"+typ.String(), func(b *testing.B) {
				m, size, err := newPackedMatrix(typ, groupRows, cols)
				require.NoError(b, err)
				m.bind(make([]byte, size.weights), make([]byte, size.scales), make([]float32, size.bias))
				p := &packer{typ: typ}
				for o := range p.rows {
					p.rows[o] = make([]byte, cols/typ.BlockSize()*typ.BlockBytes())
				}
				b.SetBytes(int64(groupRows * len(p.rows[0])))
				for b.Loop() {
					if packs[typ] != nil {
						packs[typ](m.weights, m.scales, &p.rows, cols)
					} else {
						p.packBlocks(m, m.weights, m.scales, groupRows)
					}
				}
			})
		}
	}
}
