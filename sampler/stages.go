package sampler

import (
	"math"

	"surmise/compute/vocab"
)

// temper multiplies the row by 1/T in place (order hf, and before mirostat).
func (c *Chain) temper(s *scratch, r *row) {
	s.few.list = false
	invT := c.inverseTemperature(s, r)
	if invT == 1 {
		return
	}
	// Near-zero temperatures may overflow: the race then takes the largest.
	if math.IsInf(float64(r.max*invT), 0) {
		invT = 1
		r.cut, r.over = keyOf(r.max, int32(vocab.Argmax(r.z, r.bm, r.max))), 0
	}
	r.max, _ = vocab.Scale(s.z, r.bm, r.z, invT)
	r.z, r.owned = s.z, true
}

// inverseTemperature returns 1/T; with a dynamic temperature, from the
// survivors' entropy H and number n:
// T = lo + (hi − lo)·(H/log n)^exponent, lo = max(0, T−range), hi = T+range.
func (c *Chain) inverseTemperature(s *scratch, r *row) float32 {
	p := &c.core.params
	if p.DynatempRange <= 0 {
		return c.core.invT
	}
	h, n := s.entropyOf(r)
	if n < 2 {
		return c.core.invT
	}
	lo, hi := min(max(0, p.Temperature-p.DynatempRange), maxTemperature), min(p.Temperature+p.DynatempRange, maxTemperature)
	share := min(max(h/log(float64(n)), 0), 1)
	t := lo + float64((hi-lo)*pow(share, p.DynatempExponent))
	if t < minTemperature {
		t = minTemperature
	}
	return inverse(t)
}

// maxTemperature bounds the dynamic temperature: above, all tokens are alike.
const maxTemperature = 1e30

// inverse returns 1/t, but never so little that −Inf times it is not −Inf.
func inverse(t float64) float32 { return max(float32(1/t), 1e-30) }

// entropyOf returns the survivors' entropy in nats and their number, from the
// list if there is one. The partial sums go by token id, so both agree.
func (s *scratch) entropyOf(r *row) (float64, int) {
	if !s.few.list {
		n := 0
		for i, v := range r.z {
			if keyOf(v, int32(i)) >= r.cut {
				n++
			}
		}
		return s.entropy(r), n
	}
	top := s.listMax(r)
	var part [16]float64
	var sum uint64
	for _, id := range s.few.ids {
		d := r.z[id] - top
		w := vocab.Weight(d)
		part[id&15] += float64(float64(w) * float64(d))
		sum += uint64(w)
	}
	return log(float64(sum)/vocab.One) - fold(&part)/float64(sum), len(s.few.ids)
}

func (s *scratch) listMax(r *row) float32 {
	top := float32(math.Inf(-1))
	for _, id := range s.few.ids {
		top = max(top, r.z[id])
	}
	return top
}

// xtcActs decides whether XTC removes tokens at this position.
func (c *Chain) xtcActs() bool {
	w := noiseAt(c.core.seed, c.sample, c.length, purposeXTC).Word(0)
	return float64(w) < float64(c.core.params.XTCProbability*(1<<32))
}

// xtc removes, of the survivors with at least the threshold's share, all but
// the least likely. Special and end tokens stay, and so does everything if
// fewer than min_keep would remain.
func (c *Chain) xtc(s *scratch, r *row) {
	total, n := s.massOf(r)
	t := atLeast(slack(share(c.core.params.XTCThreshold, total)))
	keys := s.aboveThreshold(r, t)
	if len(keys) < 2 {
		return
	}
	last := keys[0]
	for _, k := range keys {
		last = min(last, k)
	}
	remove := keys[:0]
	for _, k := range keys {
		if k != last && !c.protected(idOf(k)) {
			remove = append(remove, k)
		}
	}
	if n-len(remove) < max(1, c.core.params.MinKeep) || len(remove) == 0 {
		return
	}
	s.remove(r, remove)
}

// massOf returns the survivors' mass and number (all, also those without
// weight).
func (s *scratch) massOf(r *row) (total uint64, n int) {
	if s.few.list {
		for _, id := range s.few.ids {
			total += uint64(r.weight(r.z[id]))
		}
		return total, len(s.few.ids)
	}
	total, _ = r.mass()
	n = vocab.Collect(s.ids, r.z, r.bm, r.lo()) - r.over
	return total, n
}

// aboveThreshold returns the keys of the prefix of survivors that ends with the
// last token of weight t or more.
func (s *scratch) aboveThreshold(r *row, t uint64) []key {
	c := *r
	f := s.byWeight(r, t)
	if uint64(r.weight(r.max)) < t {
		return nil // even the top token is under the threshold
	}
	c.narrow(f)
	return s.collectKeys(&c, c.lo())
}

func (c *Chain) protected(id int32) bool {
	if c.core.env.Special != nil && c.core.env.Special(id) {
		return true
	}
	for _, e := range c.core.eos {
		if e == id {
			return true
		}
	}
	return false
}

// remove takes tokens out of the survivors.
func (s *scratch) remove(r *row, keys []key) {
	if !s.few.list {
		if !r.owned {
			copy(s.z, r.z)
			r.z, r.owned = s.z, true
		}
		for _, k := range keys {
			r.z[idOf(k)] = banned
		}
		r.refresh()
		return
	}
	// keys and the list are both in ascending order of id.
	ids := s.few.ids[:0]
	for _, id := range s.few.ids {
		for len(keys) > 0 && idOf(keys[0]) < id {
			keys = keys[1:]
		}
		if len(keys) == 0 || idOf(keys[0]) != id {
			ids = append(ids, id)
		}
	}
	s.few.ids = ids
}

// feedback is the state that emitted tokens advance.
type feedback struct {
	mu            float64 // mirostat's allowed surprise, in bits
	sum, weight   float64 // adaptive-p's decayed mean of drawn probabilities
	drawn         bool
	token         int32
	surprise      float64 // bits, of token when it was drawn
	originalShare float64
}

func (f *feedback) begin(p *Params) {
	f.mu = 2 * p.MirostatTau
	f.weight = 1 / (1 - p.AdaptiveDecay)
	f.sum = max(p.AdaptiveTarget, 0) * f.weight
}

// maxMu bounds mirostat's state, which an absurd learning rate could overflow.
const maxMu = 1e4

func (f *feedback) accept(p *Params, token int32) {
	if !f.drawn || f.token != token {
		f.drawn = false
		return
	}
	f.drawn = false
	if p.Mirostat > 0 {
		f.mu -= float64(p.MirostatEta * (f.surprise - p.MirostatTau))
		f.mu = min(max(f.mu, -maxMu), maxMu)
		return
	}
	if p.AdaptiveTarget >= 0 {
		f.sum = float64(f.sum*p.AdaptiveDecay) + f.originalShare
		f.weight = float64(f.weight*p.AdaptiveDecay) + 1
	}
}

// mirostat truncates the tempered row so that the surprise of what is drawn
// stays near tau (Basu et al., "Mirostat", 2020). Version 2 cuts at surprise mu;
// version 1 estimates Zipf's exponent from the 100 most likely tokens and cuts
// at the rank k that would have surprise mu.
func (c *Chain) mirostat(s *scratch, r *row) int32 {
	p := &c.core.params
	total, _ := r.mass()
	if p.Mirostat == 2 {
		t := float64(float64(total) * exp(-float64(c.feedback.mu*math.Ln2)))
		c.guard(s, r, s.byWeight(r, atLeast(slack(uint64(min(t, vocab.One))))))
	} else {
		c.guard(s, r, s.topK(r, s.zipfRank(r, c.feedback.mu)))
	}
	s.gather(r, c.core.env.Reference.Sort)
	id := c.draw(s, r, 1)
	kept, _ := s.massOf(r)
	c.feedback.drawn, c.feedback.token = true, id
	w := max(r.weight(r.z[id]), 1)
	c.feedback.surprise = log(float64(kept)/float64(w)) / math.Ln2
	return id
}

// zipfTop is the number of tokens Zipf's exponent is estimated from.
const zipfTop = 100

// zipfRank returns k = ((ε·2^mu)/(1 − N^−ε))^(1/s) with ε = s − 1 and
// s = Σ tᵢbᵢ/Σ tᵢ², tᵢ = log((i+2)/(i+1)), bᵢ = log(pᵢ/pᵢ₊₁).
func (s *scratch) zipfRank(r *row, mu float64) int {
	top := *r
	top.narrow(s.topK(r, zipfTop))
	keys := s.sorted(&top)
	var tb, tt float64
	for i := 0; i+1 < len(keys); i++ {
		wi, wj := r.weight(logitOf(keys[i])), r.weight(logitOf(keys[i+1]))
		if wj == 0 {
			break
		}
		t := log(float64(i+2) / float64(i+1))
		b := log(float64(wi) / float64(wj))
		tb += float64(t * b)
		tt += float64(t * t)
	}
	n := float64(len(r.z))
	if tt == 0 {
		return len(r.z)
	}
	sHat := tb / tt
	if sHat < 1e-9 {
		return len(r.z) // flat: no rank has less than surprise log2 n
	}
	eps := sHat - 1
	two := exp(float64(mu * math.Ln2))
	var k float64
	if math.Abs(eps) < 1e-9 { // the limit ε → 0
		k = pow(two/log(n), 1/sHat)
	} else {
		k = pow(float64(eps*two)/(1-pow(n, -eps)), 1/sHat)
	}
	if !(k < n) {
		return len(r.z)
	}
	return max(1, int(k))
}

// adaptive draws from logits that peak where a token's probability is the
// adapted target 2·target − (decayed mean of the probabilities drawn):
// 5 − 10·d²/(1 + d), d = |p − adapted|/0.3 (llama.cpp's adaptive-p).
func (c *Chain) adaptive(s *scratch, r *row, invT float32) int32 {
	const width, peak, sharpness = 0.3, 5, 10
	if !s.few.list {
		s.gather(r, true)
	}
	f := &c.feedback
	goal := min(c.core.params.AdaptiveTarget, 1)
	goal = min(max(float64(2*goal)-f.sum/f.weight, 0), 1)
	top := float32(s.listMax(r) * invT) // rounded here, never fused into the differences below
	if math.IsInf(float64(top), 0) {
		return c.first(s, r)
	}
	var total uint64
	for _, id := range s.few.ids {
		total += uint64(vocab.Weight(float32(r.z[id]*invT) - top))
	}
	n := noiseAt(c.core.seed, c.sample, c.length, purposeDraw)
	b, won := best{math.Inf(-1), -1}, 0.0
	for _, id := range s.few.ids {
		q := float64(vocab.Weight(float32(r.z[id]*invT)-top)) / float64(total)
		d := math.Abs(q-goal) / width
		y := peak - float64(sharpness*float64(d*d))/(1+d)
		b.offer(y+gumbel(n, id, n.Word(id)), id)
		if b.id == id {
			won = q
		}
	}
	f.drawn, f.token, f.originalShare = true, b.id, won
	return b.id
}
