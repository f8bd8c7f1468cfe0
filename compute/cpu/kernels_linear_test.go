package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
)

// canonLinear is the plain loop over the checkpoint's own rows.
func canonLinear(part compute.LinearPart, x []float32, rows int) []float32 {
	w := part.Weight
	in, out := w.Cols(), w.Rows()
	dst, row := make([]float32, rows*out), make([]float32, in)
	var acts []canon.Acts
	for r := 0; r < rows && !w.Type.Float(); r++ {
		acts = append(acts, canon.Quantize(x[r*in:][:in]))
	}
	for o := range out {
		src := o
		if part.Row != nil {
			src = part.Row(o)
		}
		var blocks []canon.Block
		if w.Type.Float() {
			w.Float32Row(src, row)
		} else {
			blocks = canon.Blocks(w, src)
		}
		for r := range rows {
			var v float32
			if blocks != nil {
				v = canon.DotBlocks(blocks, acts[r])
			} else {
				v = canon.Dot(row, x[r*in:][:in])
			}
			if part.Bias != nil {
				v += floatAt(part.Bias, src)
			}
			dst[r*out+o] = v
		}
	}
	return dst
}

// runLinear computes all groups in two ranges, as two workers would.
func runLinear(k *kernels, m *packedMatrix, x []float32, rows, cut int) []float32 {
	var a activations
	q := packings[m.typ].quantized()
	a.resize(k, rows, m.in, q, !q)
	for r := range rows {
		if q {
			a.setRow(k, r, x[r*m.in:])
		} else {
			a.setFloatRow(r, x[r*m.in:])
		}
	}
	dst, tail := make([]float32, rows*m.out), make([]float32, maxTile*groupRows)
	k.linearRange(dst, m.out, m, 0, cut, &a, tail)
	k.linearRange(dst, m.out, m, cut, m.groups, &a, tail)
	return dst
}

func TestLinearGivesTheCanonsBitsForEveryTypeShapeAndNumberOfRows(t *testing.T) {
	eachTable(t, func(t *testing.T, k *kernels) {
		for _, typ := range allTypes {
			for rows := 1; rows <= 20; rows++ {
				for i := range uint64(2) {
					checkLinear(t, k, typ, rows, newRandom(100*uint64(rows)+i))
				}
			}
		}
	})
}

// checkLinear compares a layer of random shape, with or without a bias and a
// row permutation, and at times with extreme inputs.
func checkLinear(t *testing.T, k *kernels, typ checkpoint.Type, rows int, s random) {
	unit := packings[typ].blockMultiple()
	if typ == checkpoint.MLX4 || typ == checkpoint.MLX8 {
		unit = 64 // the group of scales the test's tensors have
	}
	in, out := unit*(1+s.IntN(max(1, 256/unit))), 1+s.IntN(100)
	part := compute.LinearPart{Weight: s.tensor(t, typ, out, in)}
	if s.IntN(2) == 0 {
		part.Bias = s.tensor(t, checkpoint.F32, 1, out)
	}
	if s.IntN(2) == 0 {
		part.Row = func(o int) int { return out - 1 - o }
	}
	x := s.floats(rows*in, []int{0, 0, 40}[s.IntN(3)])
	m := packed(t, part)
	got := runLinear(k, m, x, rows, s.IntN(m.groups+1))
	same(t, canonLinear(part, x, rows), got, "%v [%d, %d] × %d rows", typ, out, in, rows)
}

func TestGreatestWeightsAndActivationsDoNotOverflow(t *testing.T) {
	eachTable(t, func(t *testing.T, k *kernels) {
		for _, typ := range allTypes {
			if typ.Float() {
				continue
			}
			const out, in, rows = 16, 512, 3
			s := newRandom(1)
			part := compute.LinearPart{Weight: s.tensor(t, typ, out, in)}
			for i, b := range part.Weight.Data { // all bits set, all clear, and half of each
				part.Weight.Data[i] = [...]byte{b, 0xff, 0x00, 0x80, 0x7f}[i*5/len(part.Weight.Data)]
			}
			for b := 0; b < len(part.Weight.Data); b += typ.BlockBytes() {
				for _, f := range halfFields[typ] {
					part.Weight.Data[b+f], part.Weight.Data[b+f+1] = 0, 0x3c
				}
			}
			x := make([]float32, rows*in)
			for i := range x {
				x[i] = [...]float32{1, -1, float32(1 - 2*(i&1))}[i/in]
			}
			same(t, canonLinear(part, x, rows), runLinear(k, packed(t, part), x, rows, 1), "%v", typ)
		}
	})
}

func TestPackingRefusesShapesItCannotHold(t *testing.T) {
	for _, c := range []struct {
		typ     checkpoint.Type
		out, in int
		want    string
	}{
		{checkpoint.Q8_0, 16, 33, "multiple of 32"},
		{checkpoint.Q6_K, 16, 128, "multiple of 256"},
		{checkpoint.F32, 0, 5, "from 1 to"},
		{checkpoint.F32, 1 << 31, 1 << 31, "from 1 to"},
		{checkpoint.Type(200), 1, 1, "cannot be packed"},
	} {
		_, _, err := newPackedMatrix(c.typ, c.out, c.in)
		require.ErrorContains(t, err, c.want)
	}
}

func TestTilesAreBalancedAndFoundByRow(t *testing.T) {
	for rows := 1; rows <= 64; rows++ {
		tiling := tileRows(rows, 8)
		next, least, most := 0, 8, 0
		for i := range tiling.tiles {
			first, n := tiling.tile(i)
			require.Equal(t, next, first)
			next += n
			least, most = min(least, n), max(most, n)
			for r := first; r < first+n; r++ {
				f, m := tiling.of(r)
				require.Equal(t, [2]int{first, n}, [2]int{f, m})
			}
		}
		require.Equal(t, rows, next)
		require.LessOrEqual(t, most-least, 1)
	}
}
