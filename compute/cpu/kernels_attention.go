package cpu

import (
	"math"

	"surmise/compute"
	"surmise/compute/canon"
)

const (
	chunkSize = canon.ChunkSize
	pageSize  = compute.PageSize
	// chunkPages pages make a chunk.
	chunkPages = chunkSize / pageSize
	// maxPairs is the most (row, query head) pairs of a tile; with 4 vectors
	// each they fill the registers of AVX-512.
	maxPairs = 6
	// maxHeadDim bounds the dimensions of a head; queryStride is the distance of
	// a tile's queries, which no two of them share a line of the first-level
	// cache's sets at.
	maxHeadDim  = 512
	queryStride = maxHeadDim + 16
)

// attention is one unit of work: the pairs of a tile, which share a key/value
// head, against one chunk of 256 positions. The keys of a page and head are
// [16-position group][dim][16], its values [position][dim].
type attention struct {
	pairs, dim int
	// q is [pairs][queryStride], already multiplied by the scale; the first dim
	// values of a row count.
	q []float32
	// lo ≤ j < hi are the visible positions of a pair, counted from the chunk's
	// start; lo < hi ≤ 256 or the pair sees nothing of the chunk.
	lo, hi [maxPairs]int
	// keys and values are the offsets in half (or float, for an f32 cache) where
	// the blocks of the chunk's pages begin.
	keys, values [chunkPages]int
	// next is where the keys of the unit after this one begin, or −1.
	next  int
	half  []uint16
	float []float32

	// s is scratch of [pairs][256].
	s []float32
	// The results: the greatest score, the sum of weights and [pairs][dim] sums
	// of values. Those of a pair that sees nothing mean nothing.
	m, l [maxPairs]float32
	o    []float32
}

// attend works out a unit. Pairs never look at positions they do not see, even
// if those hold NaN: scores there are computed and ignored, values are skipped.
func (k *kernels) attend(a *attention) {
	lo, hi := chunkSize, 0
	for p := range a.pairs {
		if a.lo[p] < a.hi[p] {
			lo, hi = min(lo, a.lo[p]), max(hi, a.hi[p])
		}
	}
	for j := lo &^ (pageSize - 1); j < hi; j += pageSize {
		ahead := a.values[lo/pageSize]
		if j+pageSize < hi {
			ahead = a.keys[j/pageSize+1]
		}
		k.pageScores(a, j, min(hi-j, pageSize), ahead)
	}
	for p := range a.pairs {
		if a.lo[p] < a.hi[p] {
			a.m[p], a.l[p] = k.softmax(a.s[p*chunkSize:][:chunkSize], a.lo[p], a.hi[p])
		}
	}
	clear(a.o[:a.pairs*a.dim])
	for j := lo; j < hi; {
		next, ahead := a.border(j, hi), a.next
		if (j/pageSize+1)*pageSize < hi {
			ahead = a.values[j/pageSize+1]
		}
		for p := 0; p < a.pairs; {
			n := 0
			for p+n < a.pairs && a.lo[p+n] <= j && j < a.hi[p+n] {
				n++
			}
			if n > 0 {
				k.pageValues(a, p, n, j, next, ahead)
			}
			p += n + 1
		}
		j = next
	}
}

// border is the next position after j at which a page ends or a pair begins or
// ends to see: between borders, all pairs keep what they see.
func (a *attention) border(j, hi int) int {
	next := min(hi, (j/pageSize+1)*pageSize)
	for p := range a.pairs {
		if j < a.lo[p] {
			next = min(next, a.lo[p])
		}
		if j < a.hi[p] {
			next = min(next, a.hi[p])
		}
	}
	return next
}

// pageScores computes the scores of the page that begins at position j of the
// chunk, rounded up to whole groups, while the block at ahead is fetched.
func (k *kernels) pageScores(a *attention, j, n, ahead int) {
	groups, at := (n+groupRows-1)/groupRows, a.keys[j/pageSize]
	size := groups * groupRows * a.dim
	if a.half != nil {
		k.scoresHalf(a.s[j:], a.q, a.half[at:at+size], part(a.half, ahead, size), a.pairs, a.dim, groups)
	} else {
		k.scoresFloat(a.s[j:], a.q, a.float[at:at+size], part(a.float, ahead, size), a.pairs, a.dim, groups)
	}
}

// pageValues adds positions from ≤ j < to of one page to n pairs from p on,
// while the same part of the block at ahead is fetched.
func (k *kernels) pageValues(a *attention, p, n, from, to, ahead int) {
	offset, size := from%pageSize*a.dim, (to-from)*a.dim
	at := a.values[from/pageSize] + offset
	o, e := a.o[p*a.dim:], a.s[p*chunkSize+from:]
	if ahead >= 0 {
		ahead += offset
	}
	if a.half != nil {
		k.valuesHalf(o, e, a.half[at:at+size], part(a.half, ahead, size), n, a.dim, to-from)
	} else {
		k.valuesFloat(o, e, a.float[at:at+size], part(a.float, ahead, size), n, a.dim, to-from)
	}
}

// part is n elements of s from at on, or nil for a negative at.
func part[T any](s []T, at, n int) []T {
	if at < 0 {
		return nil
	}
	return s[at : at+n]
}

// scoresHalfGeneric computes s[p][j] = Σ_d k[j][d]·q[p][d] by fma for the
// positions of `groups` groups of 16; rows of s are 256 apart, those of q
// queryStride.
func scoresHalfGeneric(s, q []float32, k, _ []uint16, pairs, dim, groups int) {
	var col [groupRows]float32
	for g := range groups {
		clearScores(s[g*groupRows:], pairs)
		for d := range dim {
			for i, h := range k[(g*dim+d)*groupRows:][:groupRows] {
				col[i] = halfToFloat(h)
			}
			addScores(s[g*groupRows:], q[d:], &col, pairs)
		}
	}
}

func scoresFloatGeneric(s, q, k, _ []float32, pairs, dim, groups int) {
	for g := range groups {
		clearScores(s[g*groupRows:], pairs)
		for d := range dim {
			addScores(s[g*groupRows:], q[d:], (*[groupRows]float32)(k[(g*dim+d)*groupRows:]), pairs)
		}
	}
}

func clearScores(s []float32, pairs int) {
	for p := range pairs {
		clear(s[p*chunkSize:][:groupRows])
	}
}

func addScores(s, q []float32, col *[groupRows]float32, pairs int) {
	for p := range pairs {
		row, x := (*[groupRows]float32)(s[p*chunkSize:]), q[p*queryStride]
		for i, v := range col {
			row[i] = canon.FMA(v, x, row[i])
		}
	}
}

// valuesHalfGeneric adds n positions: o[p][d] = fma(e[p][j], v[j][d], o[p][d]);
// rows of e are 256 apart.
func valuesHalfGeneric(o, e []float32, v, _ []uint16, pairs, dim, n int) {
	for j := range n {
		for d, h := range v[j*dim:][:dim] {
			x := halfToFloat(h)
			for p := range pairs {
				o[p*dim+d] = canon.FMA(e[p*chunkSize+j], x, o[p*dim+d])
			}
		}
	}
}

func valuesFloatGeneric(o, e, v, _ []float32, pairs, dim, n int) {
	for j := range n {
		for d, x := range v[j*dim:][:dim] {
			for p := range pairs {
				o[p*dim+d] = canon.FMA(e[p*chunkSize+j], x, o[p*dim+d])
			}
		}
	}
}

func softmaxGeneric(s []float32, lo, hi int) (m, l float32) {
	m = float32(math.Inf(-1))
	for _, v := range s[lo:hi] {
		m = max(m, v)
	}
	var sum [groupRows]float32
	for j := lo; j < hi; j++ {
		s[j] = canon.Exp(s[j] - m)
		sum[j%groupRows] += s[j]
	}
	return m, canon.Fold16(&sum)
}

func combineGeneric(dst, m, l, o []float32, stride int) {
	top := float32(math.Inf(-1))
	for _, v := range m {
		top = max(top, v)
	}
	var total float32
	clear(dst)
	for c, v := range m {
		w := canon.Exp(v - top)
		total = canon.FMA(w, l[c], total)
		for d, x := range o[c*stride:][:len(dst)] {
			dst[d] = canon.FMA(w, x, dst[d])
		}
	}
	r := 1 / total
	for d, v := range dst {
		dst[d] = float32(v*r) + 0
	}
}
