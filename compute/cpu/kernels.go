package cpu

import (
	"fmt"
	"strings"

	"surmise/compute"
	"surmise/compute/canon"
)

// kernels is a table of inner loops. Every entry gives exactly the bits of
// package canon, whatever the instruction set; an implementation may leave an
// entry as the generic one. A table is immutable.
//
// Slices are long enough by contract (the device checks programs before it
// runs them); implementations in assembly check lengths once per call all the
// same, because a wrong one would not panic.
type kernels struct {
	name string
	// tile and floatTile are the most rows a linear kernel takes at once.
	tile, floatTile int

	// linear, by checkpoint type, multiplies groups g ≤ i < g+ng of w by the
	// rows of one tile of activations, [block][row]. It adds the bias and writes
	// [rows, 16·ng] to dst, whose rows are ldd apart. nil for float types.
	linear [len(packings)]func(dst []float32, ldd int, w *packedMatrix, g, ng int, acts []record, rows int)
	// linearFloat is the same for float types; x is [column][row].
	linearFloat [len(packings)]func(dst []float32, ldd int, w *packedMatrix, g, ng int, x []float32, rows int)

	// quantize writes the blocks of x to dst[0], dst[stride], dst[2·stride] ….
	quantize func(dst []record, stride int, x []float32)
	// norm writes the RMS norm of x, weighted by w, to dst (which may be x);
	// all three have one length.
	norm func(dst, x, w []float32, eps float32)
	// rotary turns one head in place; cos and sin are as long as half of what turns.
	rotary func(x, cos, sin []float32)
	// gate writes act(g)·u to dst, which may be either.
	gate func(dst, g, u []float32, act compute.Activation)
	// add writes a + b to dst, scale s·a; dst may be an operand.
	add   func(dst, a, b []float32)
	scale func(dst, a []float32, s float32)
	// argmax returns the lowest index of the greatest value, −1 where x holds a
	// NaN or nothing.
	argmax func(x []float32) int32
	// toHalf rounds to binary16.
	toHalf func(dst []uint16, x []float32)

	// The parts of attention over one page; see attention. ahead is memory that
	// will be needed soon, for the processor to fetch meanwhile: as long as k or
	// v, or nil.
	scoresHalf  func(s, q []float32, k, ahead []uint16, pairs, dim, groups int)
	scoresFloat func(s, q, k, ahead []float32, pairs, dim, groups int)
	valuesHalf  func(o, e []float32, v, ahead []uint16, pairs, dim, n int)
	valuesFloat func(o, e, v, ahead []float32, pairs, dim, n int)
	// softmax turns the scores lo ≤ j < hi of one chunk, s[0:256], into weights
	// exp(s − m) and returns their maximum m and sum l.
	softmax func(s []float32, lo, hi int) (m, l float32)
	// combine joins the chunks of one (row, head): their m and l, and o, whose
	// chunks are stride values apart; dst is [dim].
	combine func(dst, m, l, o []float32, stride int)
}

// implementation is a table that may run on this machine.
type implementation struct {
	name      string
	available bool // the processor has what it needs
	table     func() *kernels
}

// implementations lists what is compiled in, best first; generic is last.
func implementations() []implementation {
	return append(archImplementations(), implementation{"generic", true, genericKernels})
}

// selectKernels returns the table of the given name, or the best one for "". The
// error names SURMISE_CPU, by which users ask for one.
func selectKernels(name string) (*kernels, error) {
	var names []string
	for _, i := range implementations() {
		if !i.available {
			continue
		}
		if name == "" || name == i.name {
			return i.table(), nil
		}
		names = append(names, i.name)
	}
	return nil, fmt.Errorf("instruction set %q (SURMISE_CPU): want one that this processor has, %s, or none for the best", name, strings.Join(names, ", "))
}

// genericKernels is the table in plain Go, the reference of all others.
func genericKernels() *kernels {
	k := &kernels{
		name: "generic", tile: 8, floatTile: 8,
		quantize:    quantizeGeneric,
		norm:        canon.Norm,
		rotary:      canon.Rotary,
		gate:        gateGeneric,
		add:         addGeneric,
		scale:       scaleGeneric,
		argmax:      canon.Argmax,
		toHalf:      toHalfGeneric,
		scoresHalf:  scoresHalfGeneric,
		scoresFloat: scoresFloatGeneric,
		valuesHalf:  valuesHalfGeneric,
		valuesFloat: valuesFloatGeneric,
		softmax:     softmaxGeneric,
		combine:     combineGeneric,
	}
	for typ, p := range packings {
		if p.quantized() {
			k.linear[typ] = linearGeneric
		} else {
			k.linearFloat[typ] = linearFloatGeneric
		}
	}
	return k
}

const (
	// callBytes caps the weights of one assembly call, which cannot be preempted.
	callBytes = 1 << 20
	// cacheBytes of weights stay in the second-level cache while several tiles
	// of rows pass over them.
	cacheBytes = 256 << 10

	maxTile = 16 // no table has larger tiles
)

// linearRange computes groups g0 ≤ g < g1 of a layer for all rows: dst is
// [rows, w.out] with rows ldd apart. tail is scratch of maxTile·16 values.
func (k *kernels) linearRange(dst []float32, ldd int, w *packedMatrix, g0, g1 int, a *activations, tail []float32) {
	t := a.float
	if packings[w.typ].quantized() {
		t = a.quantized
	}
	limit := callBytes
	if t.tiles > 1 {
		limit = cacheBytes
	}
	step := max(1, limit/(w.weightStride+w.scaleStride))
	whole := min(g1, w.out/groupRows) // the groups that fill 16 outputs
	for g := g0; g < whole; g += step {
		k.linearTiles(dst[g*groupRows:], ldd, w, g, min(step, whole-g), a, t)
	}
	if whole == g1 || g0 == g1 {
		return
	}
	// The last group has padding: its outputs pass through tail.
	for i := range t.tiles {
		first, n := t.tile(i)
		k.linearTile(tail, groupRows, w, whole, 1, a, first, n)
		for r := range n {
			copy(dst[(first+r)*ldd+whole*groupRows:(first+r)*ldd+w.out], tail[r*groupRows:])
		}
	}
}

func (k *kernels) linearTiles(dst []float32, ldd int, w *packedMatrix, g, ng int, a *activations, t tiling) {
	for i := range t.tiles {
		first, n := t.tile(i)
		k.linearTile(dst[first*ldd:], ldd, w, g, ng, a, first, n)
	}
}

func (k *kernels) linearTile(dst []float32, ldd int, w *packedMatrix, g, ng int, a *activations, first, n int) {
	if packings[w.typ].quantized() {
		k.linear[w.typ](dst, ldd, w, g, ng, a.q[first*w.blocks:(first+n)*w.blocks], n)
		return
	}
	k.linearFloat[w.typ](dst, ldd, w, g, ng, a.x[first*w.in:(first+n)*w.in], n)
}
