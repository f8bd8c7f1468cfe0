package sampler

import (
	"math"
	"math/bits"
	"slices"

	"surmise/compute/vocab"
)

// rowFilters applies step 4. Each filter looks at the survivors of the one
// before and keeps at least min_keep of them.
func (c *Chain) rowFilters(s *scratch, r *row) {
	p := &c.core.params
	if p.TopNSigma > 0 {
		c.guard(s, r, topNSigma(r, p.TopNSigma))
	}
	if p.PLess {
		c.guard(s, r, c.pLess(s, r))
	}
	if p.TypicalP < 1 {
		s.typical(r, p.TypicalP, max(1, p.MinKeep))
	}
	if p.EpsilonCutoff > 0 {
		total, _ := r.mass()
		c.guard(s, r, s.byWeight(r, atLeast(slack(share(p.EpsilonCutoff, total)))))
	}
	if p.EtaCutoff > 0 {
		total, _ := r.mass()
		// Hewitt, Manning and Liang (2022): η = min(ε, √ε·exp(−H)).
		eta := min(p.EtaCutoff, float64(math.Sqrt(p.EtaCutoff)*exp(-s.entropy(r))))
		c.guard(s, r, s.byWeight(r, atLeast(slack(share(eta, total)))))
	}
	if p.TFSZ < 1 {
		c.guard(s, r, s.tailFree(r, p.TFSZ, max(1, p.MinKeep)))
	}
}

// atLeast keeps a threshold from switching its filter off: a weight of 0 is
// under every positive threshold.
func atLeast(t uint64) uint64 { return max(t, 1) }

// guard narrows the row to f, but leaves min_keep survivors.
func (c *Chain) guard(s *scratch, r *row, f cutoff) {
	if k := c.core.params.MinKeep; k > 1 && f.cut > r.cut {
		f = least(f, s.topK(r, k))
	}
	r.narrow(f)
}

// topNSigma keeps z ≥ max − n·σ, with the standard deviation of the survivors'
// logits: sums in float64, 16 partials by token id, folded 8, 4, 2, 1.
func topNSigma(r *row, n float64) cutoff {
	var sum, sq [16]float64
	count := 0
	for i, v := range r.z {
		if keyOf(v, int32(i)) >= r.cut {
			sum[i&15] += float64(v)
			count++
		}
	}
	mean := fold(&sum) / float64(count)
	for i, v := range r.z {
		if keyOf(v, int32(i)) >= r.cut {
			d := float64(v) - mean
			sq[i&15] += float64(d * d)
		}
	}
	t := float64(r.max) - float64(n*math.Sqrt(fold(&sq)/float64(count)))
	lo := float32(t) // the smallest float32 ≥ t
	if float64(lo) < t {
		lo = math.Nextafter32(lo, float32(math.Inf(1)))
	}
	return cutoff{cut: uint64(orderOf(min(lo, r.max))) << 32}
}

func fold(p *[16]float64) float64 {
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			p[i] += p[i+n]
		}
	}
	return p[0]
}

// pLess keeps q_i ≥ Σ q_j² for q = softmax(z/T): in masses w_i·Σw ≥ Σw².
func (c *Chain) pLess(s *scratch, r *row) cutoff {
	t := *r
	if c.core.params.Order == OrderLlama {
		if math.IsInf(float64(r.max*c.core.invT), 0) {
			return s.topK(r, 1) // so cold that the top token has all the mass
		}
		t = s.tempered(r, c.core.invT)
	}
	vocab.Weights(s.w, t.z, t.bm, t.max, t.lo())
	var sum, sqHi, sqLo uint64
	for i, w := range s.w {
		if w > 0 && r.keeps(int32(i)) {
			q := uint64(w) * uint64(w)
			sum, sqHi, sqLo = sum+uint64(w), sqHi+q>>32, sqLo+q&(1<<32-1)
		}
	}
	// ceil(Σw²/Σw) ≤ 2³⁰; both sums are exact and below 2⁷⁷ and 2⁴⁷.
	hi, carry := sqHi>>32, sqHi<<32
	lo, c1 := bits.Add64(carry, sqLo, 0)
	q, rem := bits.Div64(hi+c1, lo, sum)
	if rem > 0 {
		q++
	}
	f := s.byWeight(&t, atLeast(slack(q)))
	if &t.z[0] == &r.z[0] {
		return f
	}
	return s.untemper(r, &t, f)
}

// tempered returns the row at temperature 1/invT, in memory of its own, with
// the same survivors.
func (s *scratch) tempered(r *row, invT float32) row {
	if invT == 1 {
		return *r
	}
	t := row{z: s.temp, bm: s.tbm, over: r.over, owned: true}
	t.max, _ = vocab.Scale(t.z, t.bm, r.z, invT)
	lo := float32(r.lo() * invT)
	if math.IsInf(float64(lo), -1) {
		lo = -math.MaxFloat32
	}
	t.cut = uint64(orderOf(lo))<<32 | r.cut&(1<<32-1)
	return t
}

// untemper translates a cutoff of the tempered row t back to r: several logits
// can share one tempered value, all of them stay.
func (s *scratch) untemper(r, t *row, f cutoff) cutoff {
	if f.cut <= t.cut {
		return r.cutoff()
	}
	c := cutoff{cut: math.MaxUint64}
	n := vocab.Collect(s.ids, t.z, t.bm, logitOf(f.cut))
	for _, id := range s.ids[:n] {
		c.cut = min(c.cut, keyOf(r.z[id], id)>>32<<32)
	}
	return c
}

// entropy returns −Σ p·log p of the survivors, in nats, as
// log(S/2³⁰) − (Σ w·d)/S with d the distance to the maximum; the sum has 16
// partials by token id.
func (s *scratch) entropy(r *row) float64 {
	vocab.Weights(s.w, r.z, r.bm, r.max, r.lo())
	var part [16]float64
	var sum uint64
	for i, w := range s.w {
		if w > 0 && (r.over == 0 || r.keeps(int32(i))) {
			part[i&15] += float64(float64(w) * float64(r.z[i]-r.max))
			sum += uint64(w)
		}
	}
	return log(float64(sum)/vocab.One) - fold(&part)/float64(sum)
}

// typical keeps the survivors whose surprise is nearest to the entropy, until
// their mass reaches p (Meister et al., 2022). Equal distances (as float32) are
// taken in order of id. The others are set to −Inf: this filter alone can
// remove the top token.
func (s *scratch) typical(r *row, p float64, minKeep int) {
	h := s.entropy(r) // leaves the weights in s.w
	total, _ := r.mass()
	need := slack(share(p, total))
	logS := log(float64(total) / vocab.One)
	// The tokens at most d from the entropy, for a d that holds enough of them:
	// their logits lie d around max + log S − H.
	keys := s.keys[:0]
	for d := 0.5; ; d *= 2 {
		lo := max(float32(float64(r.max)+logS-h-d-1e-2-1e-6*math.Abs(float64(r.max))), r.max-vocab.Depth, r.lo())
		keys = keys[:0]
		var mass uint64
		n := vocab.Collect(s.ids, r.z, r.bm, lo)
		for _, i := range s.ids[:n] {
			far := math.Abs(logS - float64(r.z[i]-r.max) - h)
			if s.w[i] > 0 && far <= d && r.keeps(i) {
				keys = append(keys, uint64(math.Float32bits(float32(far)))<<32|uint64(uint32(i)))
				mass += uint64(s.w[i])
			}
		}
		if d > 4*vocab.Depth || (mass >= need && len(keys) >= minKeep) {
			break
		}
	}
	n := s.nearest(keys, need, minKeep)
	kept, logits := s.list[:n], s.temp[:n]
	for i, k := range keys[:n] {
		kept[i] = int32(uint32(k))
		logits[i] = r.z[kept[i]]
	}
	r.z, r.owned = s.z, true
	for i := range r.z {
		r.z[i] = banned
	}
	for i, id := range kept {
		r.z[id] = logits[i]
	}
	r.cut, r.over = lowestCut, 0
	r.refresh()
}

// nearest reorders keys so that its first n, in ascending order of key, are the
// shortest prefix with at least minKeep tokens and mass need, and returns n. It
// narrows a window by selection, so it is linear on average.
func (s *scratch) nearest(keys []key, need uint64, minKeep int) int {
	for i := range keys {
		keys[i] = ^keys[i] // ascending becomes descending
	}
	defer func() {
		for i := range keys {
			keys[i] = ^keys[i]
		}
	}()
	lo, hi := 0, len(keys) // the answer is in (lo, hi]
	var before uint64      // mass of keys[:lo]
	for hi-lo > 32 {
		mid := (hi - lo) / 2
		selectLargest(keys[lo:hi], mid)
		var m uint64
		for _, k := range keys[lo : lo+mid] {
			m += uint64(s.w[uint32(^k)])
		}
		if before+m >= need {
			hi = lo + mid
		} else {
			lo, before = lo+mid, before+m
		}
	}
	rest := keys[lo:hi]
	slices.Sort(rest)
	slices.Reverse(rest)
	n := lo
	for _, k := range rest {
		if before >= need {
			break
		}
		before += uint64(s.w[uint32(^k)])
		n++
	}
	if n < minKeep && n < len(keys) {
		n = min(minKeep, len(keys))
		selectLargest(keys, n-1)
	}
	return n
}

// tailFree sorts the survivors by probability, takes the absolute second
// differences, and cuts where their running share exceeds z (Phénix and
// Egan's tail-free sampling, as llama.cpp had it).
func (s *scratch) tailFree(r *row, z float64, minKeep int) cutoff {
	keys := s.collectKeys(r, r.max-vocab.Depth)
	if len(keys) <= 2 {
		return r.cutoff()
	}
	slices.Sort(keys)
	slices.Reverse(keys)
	w := s.w[:len(keys)]
	for i, k := range keys {
		w[i] = r.weight(logitOf(k))
	}
	second := func(i int) uint64 {
		d := int64(w[i]) - 2*int64(w[i+1]) + int64(w[i+2])
		return uint64(max(d, -d))
	}
	var total, cum uint64
	for i := range len(w) - 2 {
		total += second(i)
	}
	flat := total == 0
	if flat { // a uniform slope: every difference counts alike
		total = uint64(len(w) - 2)
	}
	limit := share(z, total)
	for i := range len(w) - 2 {
		if flat {
			cum++
		} else {
			cum += second(i)
		}
		if cum > limit && i >= minKeep {
			return r.cutAt(keys[i-1], keys[i:])
		}
	}
	return r.cutoff()
}
