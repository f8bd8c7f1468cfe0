package sampler

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"surmise/compute/vocab"
)

// row is one position's logits while the filters narrow them down. The
// survivors are the tokens whose key is at least cut.
type row struct {
	z   []float32 // [vocab]
	bm  []float32 // block maxima of z
	max float32   // maximum of z; its token always survives
	cut key
	// over counts the tokens that tie with the cut's logit but have a higher id:
	// the only ones a comparison of logits alone would count wrongly.
	over int
	// owned says that z is scratch memory and need not be restored.
	owned bool
}

// lowestCut keeps every token but those at −Inf.
var lowestCut = keyOf(-math.MaxFloat32, math.MaxInt32)

func (r *row) lo() float32 { return logitOf(r.cut) }

func (r *row) keeps(id int32) bool { return keyOf(r.z[id], id) >= r.cut }

// narrow moves the cut up to c, never down.
func (r *row) narrow(c cutoff) {
	if c.cut > r.cut {
		r.cut, r.over = c.cut, c.over
	}
}

// cutoff is a candidate for a row's cut.
type cutoff struct {
	cut  key
	over int
}

func (r *row) cutoff() cutoff { return cutoff{r.cut, r.over} }

// least returns the lower of two cutoffs, the one that keeps more.
func least(a, b cutoff) cutoff {
	if b.cut < a.cut {
		return b
	}
	return a
}

// mass returns the survivors' mass and number; tokens without weight are not
// counted.
func (r *row) mass() (uint64, int) { return r.massAbove(r.lo(), r.over) }

func (r *row) massAbove(lo float32, over int) (uint64, int) {
	m, n := vocab.Mass(r.z, r.bm, r.max, lo)
	if over > 0 && lo >= r.max-vocab.Depth {
		m -= uint64(over) * uint64(r.weight(lo))
		n -= over
	}
	return m, n
}

func (r *row) weight(z float32) uint32 { return vocab.Weight(z - r.max) }

// share returns floor(p·total) for 0 ≤ p ≤ 1, exactly.
func share(p float64, total uint64) uint64 {
	hi, lo := bits.Mul64(total, uint64(math.Ldexp(p, 62)))
	return hi<<2 | lo>>62
}

// slack lowers a threshold by a relative 2⁻²⁰, so that a token exactly at it
// survives the rounding of its mass.
func slack(t uint64) uint64 { return t - t>>20 }

// keys fills s.keys with the keys of the tokens with logit ≥ lo that survive,
// in ascending order of id.
func (s *scratch) collectKeys(r *row, lo float32) []key {
	lo = max(lo, r.lo())
	n := vocab.Collect(s.ids, r.z, r.bm, lo)
	keys := s.keys[:0]
	for _, id := range s.ids[:n] {
		if k := keyOf(r.z[id], id); k >= r.cut {
			keys = append(keys, k)
		}
	}
	return keys
}

// topK returns the cutoff that keeps the k survivors with the largest keys. The
// k-th largest block maximum bounds the k-th largest logit from below, so only
// blocks that reach it are read.
func (s *scratch) topK(r *row, k int) cutoff {
	if k <= 0 || k >= len(r.z) {
		return r.cutoff()
	}
	lo := r.lo()
	if k <= len(r.bm) {
		b := s.keys[:len(r.bm)]
		for i, m := range r.bm {
			b[i] = uint64(orderOf(m))<<32 | uint64(uint32(i))
		}
		lo = logitOf(selectLargest(b, k-1))
	}
	keys := s.collectKeys(r, lo)
	if len(keys) <= k {
		// Either the bound was the row's own cut, or exactly k tokens reach it.
		if lo <= r.lo() || len(keys) < k {
			return r.cutoff()
		}
	}
	last := selectLargest(keys, k-1)
	return r.cutAt(last, keys[k:])
}

// cutAt returns the cutoff whose last survivor is last; below are the row's
// survivors behind it.
func (r *row) cutAt(last key, below []key) cutoff {
	c := cutoff{cut: last}
	if last>>32 == r.cut>>32 {
		c.over = r.over
	}
	for _, k := range below {
		if k>>32 == last>>32 {
			c.over++
		}
	}
	return c
}

// byWeight returns the cutoff behind the last token, in order of rank, whose
// weight is at least t. The top token always stays.
func (s *scratch) byWeight(r *row, t uint64) cutoff {
	if t == 0 {
		return r.cutoff()
	}
	if t > vocab.One { // no token has that much: the first of the largest
		return s.topK(r, 1)
	}
	// Outside a narrow band around log t the order of logits decides; inside,
	// the weights themselves do, because exp rises only up to its rounding.
	d := log(float64(t) / vocab.One)
	band := 1e-3 + float64(1e-6*math.Abs(float64(r.max)))
	bandLo := float32(float64(r.max) + d - band)
	bandHi := float32(float64(r.max) + d + band)
	c := cutoff{cut: uint64(orderOf(bandHi)) << 32}
	for _, k := range s.collectKeys(r, bandLo) {
		z := logitOf(k)
		if k>>32<<32 < c.cut && uint64(r.weight(z)) >= t {
			c.cut = k >> 32 << 32 // with every tie
		}
	}
	return c
}

// pivotRoom is the number of tokens below which sorting beats another pass.
const pivotRoom = 1024

// byMass returns the cutoff of the shortest prefix of the survivors whose mass
// reaches need, by a pivot search: passes that sum the mass above a logit,
// until the tokens in question are few enough to sort.
func (s *scratch) byMass(r *row, need uint64) cutoff {
	// above < need ≤ mass at lo; hi is the lowest logit known to be too high.
	hi, above, nAbove := float32(math.Inf(1)), uint64(0), 0
	var lo float32
	var n int
	for d := float32(1); ; d *= 2 {
		t := max(r.max-d, r.lo())
		if !(t > r.lo()) || d > vocab.Depth {
			lo = max(r.lo(), r.max-vocab.Depth)
			var m uint64
			if m, n = r.mass(); m < need {
				return r.cutoff()
			}
			break
		}
		m, c := r.massAbove(t, 0)
		if m >= need {
			lo, n = t, c
			break
		}
		hi, above, nAbove = t, m, c
	}
	if math.IsInf(float64(hi), 1) {
		hi = math.Nextafter32(r.max, float32(math.Inf(1)))
	}
	for n-nAbove > pivotRoom {
		mid := lo + (hi-lo)/2
		if !(mid > lo && mid < hi) {
			break // one logit, many tokens
		}
		if m, c := r.massAbove(mid, 0); m >= need {
			lo, n = mid, c
		} else {
			hi, above, nAbove = mid, m, c
		}
	}
	return s.finish(r, lo, hi, above, need)
}

// finish walks the tokens with lo ≤ logit < hi in order of rank until the mass
// above them and theirs reaches need.
func (s *scratch) finish(r *row, lo, hi float32, above, need uint64) cutoff {
	all := s.collectKeys(r, lo)
	keys := all[:0]
	for _, k := range all {
		if logitOf(k) < hi {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for i := len(keys) - 1; i >= 0; i-- {
		above += uint64(r.weight(logitOf(keys[i])))
		if above >= need {
			return r.cutAt(keys[i], keys[:i])
		}
	}
	return r.cutoff()
}

// load makes a row of the logits: a view of them, or with own a copy multiplied
// by scale.
func (s *scratch) load(logits []float32, own bool, scale float32) (*row, error) {
	r := &s.row
	*r = row{z: logits, bm: s.bm, cut: lowestCut, owned: own}
	var nan bool
	if own {
		r.z = s.z
		r.max, nan = vocab.Scale(r.z, r.bm, logits, scale)
	} else {
		r.max, nan = vocab.Max(r.bm, logits)
	}
	return r, r.check(nan)
}

func (r *row) check(nan bool) error {
	switch {
	case nan:
		for i, v := range r.z {
			if v != v {
				return fmt.Errorf("logit of token %d is NaN", i)
			}
		}
		return fmt.Errorf("a logit is NaN")
	case math.IsInf(float64(r.max), 1):
		return fmt.Errorf("logit of token %d is +Inf or became it by a penalty", vocab.Argmax(r.z, r.bm, r.max))
	}
	return nil
}

// refresh recomputes the maxima after z was changed.
func (r *row) refresh() { r.max, _ = vocab.Max(r.bm, r.z) }

// scratch is the memory of one Sample call.
type scratch struct {
	row    row
	z      []float32 // [vocab] the row, when it is changed
	bm     []float32
	temp   []float32 // [vocab] a tempered copy
	tbm    []float32
	w      []uint32 // [vocab]
	ids    []int32  // [vocab+16] results of vocab passes
	words  []uint32 // [vocab+16]
	keys   []key    // [vocab]
	list   []int32  // [vocab] survivors when they are few
	editor editor
	edited bool // steps 1 to 3 had something to do
	few    survivors
	// finalInvT multiplied the row's logits for the draw.
	finalInvT float32
}

func newScratch(n int) *scratch {
	b := vocab.Blocks(n)
	return &scratch{
		z: make([]float32, n), bm: make([]float32, b), temp: make([]float32, n), tbm: make([]float32, b),
		w: make([]uint32, n), ids: make([]int32, n+16), words: make([]uint32, n+16),
		keys: make([]key, max(n, b)), list: make([]int32, n+16), editor: editor{dirty: make([]int32, 0, b)},
	}
}
