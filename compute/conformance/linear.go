package conformance

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute"
)

// drawParts draws one to three parts of in columns.
func drawParts(t *rapid.T, r *rand.Rand, in, maxOut int) []compute.LinearPart {
	var types []checkpoint.Type
	for _, typ := range allTypes {
		multiple := max(typ.BlockSize(), 32)
		if typ.Float() || in%multiple == 0 {
			types = append(types, typ)
		}
	}
	n := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "parts")
	parts := make([]compute.LinearPart, n)
	for i := range parts {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		out := rapid.IntRange(1, maxOut).Draw(t, "out")
		k := drawKind(t, "weights")
		p := compute.LinearPart{Weight: tensor(r, fmt.Sprintf("part%d", i), typ, k, out, in)}
		if r.IntN(3) == 0 {
			biasType := allTypes[r.IntN(3)]
			p.Bias = tensor(r, "bias", biasType, wide, 1, out)
		}
		if r.IntN(3) == 0 {
			perm := r.Perm(out)
			p.Row = func(i int) int { return perm[i] }
		}
		if typ.Float() && k != broken {
			p.Quantize = []checkpoint.Type{checkpoint.F32, checkpoint.Q8_0, checkpoint.Q4_0}[r.IntN(3)]
		}
		parts[i] = p
	}
	return parts
}

// drawIn draws a number of columns; odd ones meet only float weights.
func drawIn(t *rapid.T) int {
	return rapid.OneOf(
		rapid.IntRange(1, 70),
		rapid.Map(rapid.IntRange(1, 12), func(n int) int { return 32 * n }),
		rapid.Map(rapid.IntRange(1, 3), func(n int) int { return 256 * n }),
	).Draw(t, "in")
}

// drawRows draws a number of rows; work is what one row costs.
func drawRows(t *rapid.T, work int) int {
	most := min(64, max(1, 400_000/work))
	return rapid.OneOf(rapid.IntRange(1, min(8, most)), rapid.IntRange(1, most)).Draw(t, "rows")
}

// linear: given any parts and any rows, every output equals the canon's.
func (s *suite) linear(t *rapid.T) {
	r := drawRand(t)
	in := drawIn(t)
	parts := drawParts(t, r, in, 70)
	out := 0
	for _, p := range parts {
		out += p.Weight.Rows()
	}
	rows := drawRows(t, in*out)
	x := mixedRows(r, rows, in)
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		w, err := d.LoadLinear(parts...)
		if err != nil {
			return err
		}
		src, err := alloc(d, x)
		if err != nil {
			return err
		}
		dst, err := alloc(d, values(rand.New(rand.NewPCG(1, 2)), ordinary, rows*(out+3)+5))
		if err != nil {
			return err
		}
		var p compute.Program
		p.Linear(compute.View{Buf: dst, Off: 2, Stride: out + 3, Cols: out}, w, compute.ViewOf(src, in), rows)
		err = d.Run(&p)
		emit(fmt.Sprintf("%d rows of %d → %d", rows, in, out), dst.Host())
		return err
	})
}

// table: embeddings of every type are read and scaled like the canon's.
func (s *suite) table(t *rapid.T) {
	r := drawRand(t)
	typ := rapid.SampledFrom(allTypes).Draw(t, "type")
	cols := max(typ.BlockSize(), 32) * rapid.IntRange(1, 3).Draw(t, "blocks")
	n := rapid.IntRange(1, 20).Draw(t, "rows")
	emb := tensor(r, "embedding", typ, drawKind(t, "weights"), n, cols)
	tokens := make([]int32, rapid.IntRange(1, 30).Draw(t, "tokens"))
	for i := range tokens {
		tokens[i] = int32(r.IntN(n))
	}
	scale := value(r, wide)
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		tab, err := d.LoadTable(emb)
		if err != nil {
			return err
		}
		dst, err := d.Alloc(len(tokens) * cols)
		if err != nil {
			return err
		}
		var p compute.Program
		p.Embed(compute.ViewOf(dst, cols), tab, tokens, scale)
		err = d.Run(&p)
		emit(fmt.Sprintf("embedding of type %s", typ), dst.Host())
		return err
	})
}
