package vocab

import "math"

const (
	// Block is the number of tokens that share one stored maximum.
	Block = 64
	// One is the mass of the token with the largest logit: weights are
	// fractions of it, so the sum over any vocabulary fits in a uint64.
	One = 1 << 30
	// Depth is how far below the maximum a logit may lie and still have a
	// weight: exp(−21)·2³⁰ < 1.
	Depth = 21
)

// Blocks returns how many blocks n tokens make; the last may be short.
func Blocks(n int) int { return (n + Block - 1) / Block }

// kernels is one implementation of the passes. Every function gets whole
// blocks only; the exported functions finish a short last block in plain Go.
type kernels struct {
	name    string
	scale   func(dst, bm, z []float32, s float32) (max float32, nan bool)
	max     func(bm, z []float32) (max float32, nan bool)
	mass    func(z, bm []float32, max, lo float32) (mass uint64, count int)
	weights func(dst []uint32, z, bm []float32, max, lo float32)
	race    func(ids []int32, words []uint32, z, bm []float32, first int32, r Race) int
	collect func(ids []int32, z, bm []float32, first int32, lo float32) int
}

// Implementation names the implementation in use: "avx512", "avx2" or "generic".
func Implementation() string { return active.name }

// Max stores each block's maximum in bm [Blocks(len(z))] and returns the
// maximum of all. nan reports a NaN anywhere in z; the maxima are then
// meaningless. An empty z gives −Inf.
func Max(bm, z []float32) (max float32, nan bool) { return active.maxOf(bm, z) }

func (k *kernels) maxOf(bm, z []float32) (float32, bool) {
	n := len(z) / Block
	m, nan := k.max(bm[:n], z[:n*Block])
	if n*Block < len(z) {
		m2, nan2 := maxGeneric(bm[n:n+1], z[n*Block:])
		m, nan = maxOf2(m, m2), nan || nan2
	}
	return m, nan
}

// Scale writes z·s, rounded once, to dst [len(z)] (s = 1 copies) and does what
// [Max] does for dst. dst may be z itself.
func Scale(dst, bm, z []float32, s float32) (max float32, nan bool) {
	return active.scaleTo(dst, bm, z, s)
}

func (k *kernels) scaleTo(dst, bm, z []float32, s float32) (float32, bool) {
	n := len(z) / Block
	dst = dst[:len(z)]
	m, nan := k.scale(dst[:n*Block], bm[:n], z[:n*Block], s)
	if n*Block < len(z) {
		m2, nan2 := scaleGeneric(dst[n*Block:], bm[n:n+1], z[n*Block:], s)
		m, nan = maxOf2(m, m2), nan || nan2
	}
	return m, nan
}

// Argmax returns the lowest index at which z is max, given the block maxima bm
// of z; −1 when there is none.
func Argmax(z, bm []float32, max float32) int {
	for b, m := range bm {
		if m != max {
			continue
		}
		end := min((b+1)*Block, len(z))
		for i := b * Block; i < end; i++ {
			if z[i] == max {
				return i
			}
		}
	}
	return -1
}

// Mass returns the sum of [Weight](z_i − max) over the tokens with z_i ≥ lo,
// and their number. Tokens more than [Depth] below max have no weight and are
// neither summed nor counted. max must be at least the maximum of z.
func Mass(z, bm []float32, max, lo float32) (mass uint64, count int) {
	return active.massOf(z, bm, max, lo)
}

func (k *kernels) massOf(z, bm []float32, max, lo float32) (uint64, int) {
	lo = maxOf2(lo, max-Depth)
	n := len(z) / Block
	mass, count := k.mass(z[:n*Block], bm[:n], max, lo)
	if n*Block < len(z) {
		m2, c2 := massGeneric(z[n*Block:], bm[n:n+1], max, lo)
		mass, count = mass+m2, count+c2
	}
	return mass, count
}

// Weights stores [Weight](z_i − max) in dst [len(z)] for the tokens with
// z_i ≥ lo and 0 for all others. max must be at least the maximum of z.
func Weights(dst []uint32, z, bm []float32, max, lo float32) {
	active.weightsTo(dst, z, bm, max, lo)
}

func (k *kernels) weightsTo(dst []uint32, z, bm []float32, max, lo float32) {
	lo = maxOf2(lo, max-Depth)
	n := len(z) / Block
	dst = dst[:len(z)]
	k.weights(dst[:n*Block], z[:n*Block], bm[:n], max, lo)
	if n*Block < len(z) {
		weightsGeneric(dst[n*Block:], z[n*Block:], bm[n:n+1], max, lo)
	}
}

// Collect stores the ids of the tokens with z_i ≥ lo in ids, ascending, and
// returns their number. ids must have room for len(z) + 16.
func Collect(ids []int32, z, bm []float32, lo float32) int {
	return active.collectTo(ids, z, bm, lo)
}

func (k *kernels) collectTo(ids []int32, z, bm []float32, lo float32) int {
	n := len(z) / Block
	c := k.collect(ids[:len(z)+16], z[:n*Block], bm[:n], 0, lo)
	if n*Block < len(z) {
		c += collectGeneric(ids[c:], z[n*Block:], bm[n:n+1], int32(n*Block), lo)
	}
	return c
}

// Race describes the search for tokens whose noisy logit can reach Best.
type Race struct {
	Noise Noise
	// InvT multiplies the logits, rounded once.
	InvT float32
	// Best is a score already reached, rounded towards −Inf.
	Best float32
	// Lo excludes tokens with z < Lo. Tokens whose logit lies so far under
	// Best that no noise can lift them may be excluded with it.
	Lo float32
}

// Run stores the ids of the tokens of z that pass the race, ascending, and
// their noise words, and returns their number. A token with z_i ≥ Lo passes
// when its noise word is small enough for z_i·InvT + noise to reach Best; a few
// that cannot pass too. first, a multiple of [Block], is the id of z[0]; ids and
// words must have room for len(z) + 16.
func (r *Race) Run(ids []int32, words []uint32, z, bm []float32, first int32) int {
	return active.run(*r, ids, words, z, bm, first)
}

func (k *kernels) run(r Race, ids []int32, words []uint32, z, bm []float32, first int32) int {
	n := len(z) / Block
	c := k.race(ids[:len(z)+16], words[:len(z)+16], z[:n*Block], bm[:n], first, r)
	if n*Block < len(z) {
		c += raceGeneric(ids[c:], words[c:], z[n*Block:], bm[n:n+1], first+int32(n*Block), r)
	}
	return c
}

func maxOf2(a, b float32) float32 {
	if b > a {
		return b
	}
	return a
}

var negInf = float32(math.Inf(-1))
