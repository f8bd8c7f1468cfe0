package sampler

import (
	"math"
	"slices"
	"sort"

	"surmise/compute/vocab"
)

// naive is the sampler written from docs/sampling.md with slices, maps and sorts
// only: nothing incremental, nothing fast, its own loops for everything but the
// definition of a weight and of a noise word.
type naive struct {
	p        Params
	eos      []int32
	special  map[int32]bool
	sample   int
	prompt   []int32
	output   []int32
	breakers [][]int32
	mu       float64
	sum, num float64

	last     int32
	surprise float64
	share    float64
}

func newNaive(p Params, prompt []int32, sample int) *naive {
	return &naive{
		p: p, prompt: prompt, sample: sample, mu: 2 * p.MirostatTau,
		sum: math.Max(p.AdaptiveTarget, 0) / (1 - p.AdaptiveDecay), num: 1 / (1 - p.AdaptiveDecay), last: -1,
	}
}

func (n *naive) history() []int32 { return append(slices.Clone(n.prompt), n.output...) }

func lastOf(h []int32, n int) []int32 {
	if n < 0 || n > len(h) {
		return h
	}
	return h[len(h)-n:]
}

// logits applies steps 1 to 3.
func (n *naive) logits(raw []float32) []float32 {
	z := slices.Clone(raw)
	ninf := float32(math.Inf(-1))
	h := n.history()
	for _, b := range n.p.LogitBias {
		if b.Bias > -100 {
			z[b.Token] += float32(b.Bias)
		}
	}
	for _, g := range n.p.LanguageBias {
		for _, id := range g.Tokens {
			if g.Bias > -100 {
				z[id] += float32(g.Bias)
			}
		}
	}
	if n.p.RepetitionPenalty != 1 {
		seen := map[int32]bool{}
		for _, id := range lastOf(h, n.p.PenaltyLastN) {
			if seen[id] {
				continue
			}
			seen[id] = true
			if z[id] > 0 {
				z[id] /= float32(n.p.RepetitionPenalty)
			} else {
				z[id] *= float32(n.p.RepetitionPenalty)
			}
		}
	}
	n.dry(z, lastOf(h, n.p.DRYPenaltyLastN))
	if n.p.FrequencyPenalty != 0 || n.p.PresencePenalty != 0 {
		count := map[int32]float64{}
		for _, id := range n.output {
			count[id]++
		}
		for id, c := range count {
			z[id] = float32(float64(z[id]) - (float64(n.p.FrequencyPenalty*c) + n.p.PresencePenalty))
		}
	}
	if k := n.p.NoRepeatNgramSize; k > 0 && len(h) >= k-1 {
		tail := h[len(h)-(k-1):]
		for i := 0; i+k <= len(h); i++ {
			if slices.Equal(h[i:i+k-1], tail) {
				z[h[i+k-1]] = ninf
			}
		}
	}
	for _, id := range n.p.SuppressTokens {
		z[id] = ninf
	}
	for _, b := range n.p.LogitBias {
		if b.Bias <= -100 {
			z[b.Token] = ninf
		}
	}
	if n.p.IgnoreEOS || len(n.output) < n.p.MinNewTokens {
		for _, id := range n.eos {
			z[id] = ninf
		}
	}
	if len(n.output) < n.p.MinNewTokens {
		for _, id := range n.p.StopTokenIDs {
			z[id] = ninf
		}
	}
	return z
}

func (n *naive) breaksAt(h []int32, i int) bool {
	for _, b := range n.breakers {
		if i+1 >= len(b) && slices.Equal(h[i+1-len(b):i+1], b) {
			return true
		}
	}
	return false
}

// dry looks for every earlier occurrence of the last token and walks backwards.
func (n *naive) dry(z []float32, h []int32) {
	if n.p.DRYMultiplier == 0 || len(h) == 0 {
		return
	}
	longest := map[int32]int{}
	end := len(h) - 1
	for i := range end {
		m := 0
		for m <= i && h[i-m] == h[end-m] && !n.breaksAt(h, end-m) {
			m++
		}
		if m > n.p.DRYAllowedLength {
			longest[h[i+1]] = max(longest[h[i+1]], m)
		}
	}
	for id, m := range longest {
		pen := n.p.DRYMultiplier
		for range m - n.p.DRYAllowedLength {
			pen = math.Min(pen*n.p.DRYBase, 1e30)
		}
		z[id] = float32(float64(z[id]) - pen)
	}
}

// token is a survivor with its logit.
type token struct {
	id int32
	z  float32
}

func weights(c []token) ([]float64, float64) {
	top := float32(math.Inf(-1))
	for _, t := range c {
		top = max(top, t.z)
	}
	w, sum := make([]float64, len(c)), 0.0
	for i, t := range c {
		w[i] = float64(vocab.Weight(t.z - top))
		sum += w[i] // integers below 2⁵³: exact
	}
	return w, sum
}

const near = 1 - 1.0/(1<<20)

// prefixByWeight keeps up to the last token, in order, of weight ≥ t.
func prefixByWeight(c []token, t float64, keep int) []token {
	w, _ := weights(c)
	n := 1
	for i := range c {
		if w[i] >= math.Max(1, math.Floor(t)*near) {
			n = i + 1
		}
	}
	return c[:min(len(c), max(n, keep))]
}

func prefixByMass(c []token, w []float64, need float64, keep int) []token {
	n, m := 0, 0.0
	for n < len(c) && m < math.Max(1, need) {
		m += w[n]
		n++
	}
	return c[:min(len(c), max(n, keep))]
}

func entropyOfTokens(c []token) float64 {
	w, sum := weights(c)
	h := 0.0
	for i := range c {
		if w[i] > 0 {
			h -= w[i] / sum * (float64(c[i].z-c[0].z) - math.Log(sum/vocab.One))
		}
	}
	return h
}

func inOrder(c []token) []token {
	sort.SliceStable(c, func(i, j int) bool {
		return c[i].z > c[j].z || (c[i].z == c[j].z && c[i].id < c[j].id)
	})
	return c
}

// filter applies step 4 to tokens in order.
func (n *naive) filter(c []token, tempered float32) []token {
	p, keep := n.p, n.p.MinKeep
	if p.TopNSigma > 0 {
		mean, square := 0.0, 0.0
		for _, t := range c {
			mean += float64(t.z) / float64(len(c))
		}
		for _, t := range c {
			square += (float64(t.z) - mean) * (float64(t.z) - mean) / float64(len(c))
		}
		k := 0
		for k < len(c) && float64(c[k].z) >= float64(c[0].z)-p.TopNSigma*math.Sqrt(square) {
			k++
		}
		c = c[:min(len(c), max(k, 1, keep))]
	}
	if p.PLess {
		y := slices.Clone(c)
		for i := range y {
			y[i].z *= tempered
		}
		w, sum := weights(y)
		square := 0.0
		for _, v := range w {
			square += v * v
		}
		k := 1
		for i := range w {
			if w[i] >= math.Ceil(square/sum)*near {
				k = i + 1
			}
		}
		c = c[:max(k, min(keep, len(c)))]
	}
	if p.TypicalP < 1 {
		w, sum := weights(c)
		h := entropyOfTokens(c)
		type far struct {
			token
			w float64
			d float32
		}
		var f []far
		for i, t := range c {
			if w[i] > 0 {
				s := math.Log(sum/vocab.One) - float64(t.z-c[0].z)
				f = append(f, far{t, w[i], float32(math.Abs(s - h))})
			}
		}
		sort.SliceStable(f, func(i, j int) bool { return f[i].d < f[j].d || (f[i].d == f[j].d && f[i].id < f[j].id) })
		need, m := math.Floor(p.TypicalP*sum)*near, 0.0
		c = nil
		for i := 0; i < len(f) && (m < need || i < max(keep, 1)); i++ {
			c = append(c, f[i].token)
			m += f[i].w
		}
		c = inOrder(c)
	}
	if p.EpsilonCutoff > 0 {
		_, sum := weights(c)
		c = prefixByWeight(c, p.EpsilonCutoff*sum, keep)
	}
	if p.EtaCutoff > 0 {
		_, sum := weights(c)
		eta := math.Min(p.EtaCutoff, math.Sqrt(p.EtaCutoff)*math.Exp(-entropyOfTokens(c)))
		c = prefixByWeight(c, eta*sum, keep)
	}
	if p.TFSZ < 1 {
		c = tailFreeNaive(c, p.TFSZ, max(keep, 1))
	}
	return c
}

func tailFreeNaive(c []token, z float64, keep int) []token {
	w, _ := weights(c)
	n := 0
	for n < len(w) && c[n].z >= c[0].z-vocab.Depth {
		n++
	}
	if n <= 2 {
		return c
	}
	var first, second []float64
	for i := range n - 1 {
		first = append(first, w[i]-w[i+1])
	}
	sum := 0.0
	for i := range n - 2 {
		second = append(second, math.Abs(first[i]-first[i+1]))
		sum += second[i]
	}
	run := 0.0
	for i := range second {
		if sum == 0 {
			second[i] = 1
		}
		run += second[i]
		limit := math.Floor(z * sum)
		if sum == 0 {
			limit = math.Floor(z * float64(n-2))
		}
		if run > limit && i >= keep {
			return c[:i]
		}
	}
	return c
}

// choose returns the survivors and the token, as steps 4 to 7 say.
func (n *naive) choose(z []float32, position int) ([]int32, int32) {
	p, keep := n.p, n.p.MinKeep
	var c []token
	for i, v := range z {
		if !math.IsInf(float64(v), -1) {
			c = append(c, token{int32(i), v})
		}
	}
	c = inOrder(c)
	if p.Greedy() {
		return []int32{c[0].id}, c[0].id
	}
	temperature := func() float32 {
		if p.DynatempRange == 0 || len(c) < 2 {
			return float32(1 / p.Temperature)
		}
		lo, hi := math.Max(0, p.Temperature-p.DynatempRange), p.Temperature+p.DynatempRange
		share := math.Min(math.Max(entropyOfTokens(c)/math.Log(float64(len(c))), 0), 1)
		t := lo + (hi-lo)*math.Pow(share, p.DynatempExponent)
		return float32(1 / math.Max(t, 1e-6))
	}
	scale := func(by float32) {
		for i := range c {
			c[i].z *= by
		}
		c = inOrder(c)
	}
	invT := float32(1)
	if p.Mirostat > 0 {
		scale(temperature())
		c = n.mirostat(c, len(z))
	} else {
		if p.Order == OrderHF {
			scale(temperature())
			c = n.filter(c, 1)
		} else {
			c = n.filter(c, float32(1/p.Temperature))
		}
		c = n.sets(c, keep)
		c = n.xtc(c, position)
		if p.Order == OrderLlama {
			invT = temperature()
		}
	}
	ids := make([]int32, len(c))
	for i, t := range c {
		ids[i] = t.id
	}
	slices.Sort(ids)
	return ids, n.draw(c, invT, position)
}

func (n *naive) sets(c []token, keep int) []token {
	p := n.p
	w, sum := weights(c)
	size := len(c)
	if p.TopK > 0 {
		size = min(size, max(p.TopK, keep))
	}
	if p.TopP < 1 {
		if p.Order == OrderHF {
			_, sum = weights(c[:size])
		}
		size = min(size, len(prefixByMass(c, w, math.Floor(p.TopP*sum)*near, keep)))
	}
	if p.MinP > 0 {
		size = min(size, len(prefixByWeight(c, p.MinP*vocab.One, keep)))
	}
	return c[:size]
}

func (n *naive) xtc(c []token, position int) []token {
	p := n.p
	u := float64(noiseAt(*p.Seed, n.sample, position, purposeXTC).Word(0))
	if p.XTCProbability == 0 || u >= p.XTCProbability*(1<<32) {
		return c
	}
	w, sum := weights(c)
	last := -1
	for i := range c {
		if w[i] >= math.Max(1, math.Floor(p.XTCThreshold*sum)*near) {
			last = i
		}
	}
	var out []token
	for i, t := range c {
		if i >= last || n.special[t.id] || slices.Contains(n.eos, t.id) {
			out = append(out, t)
		}
	}
	if len(out) < max(1, p.MinKeep) {
		return c
	}
	return out
}

func (n *naive) mirostat(c []token, size int) []token {
	w, sum := weights(c)
	if n.p.Mirostat == 2 {
		k := 1
		for i := range c {
			if w[i] >= math.Max(1, math.Floor(math.Min(sum*math.Exp(-n.mu*math.Ln2), vocab.One))*near) {
				k = i + 1
			}
		}
		return c[:max(k, min(n.p.MinKeep, len(c)))]
	}
	tb, tt := 0.0, 0.0
	for i := 0; i+1 < min(100, len(c)) && w[i+1] > 0; i++ {
		t := math.Log(float64(i+2) / float64(i+1))
		tb += t * math.Log(w[i]/w[i+1])
		tt += t * t
	}
	if tt == 0 || tb/tt < 1e-9 {
		return c
	}
	s := tb / tt
	eps := s - 1
	k := math.Pow(eps*math.Exp2(n.mu)/(1-math.Pow(float64(size), -eps)), 1/s)
	if !(k < float64(size)) {
		return c
	}
	return c[:min(len(c), max(int(k), 1, n.p.MinKeep))]
}

func (n *naive) draw(c []token, invT float32, position int) int32 {
	w, sum := weights(c)
	y := make([]float64, len(c))
	for i, t := range c {
		y[i] = float64(t.z * invT)
	}
	if n.p.AdaptiveTarget >= 0 && n.p.Mirostat == 0 {
		goal := math.Min(math.Max(2*n.p.AdaptiveTarget-n.sum/n.num, 0), 1)
		tempered := make([]token, len(c))
		for i, t := range c {
			tempered[i] = token{t.id, t.z * invT}
		}
		w, sum = weights(tempered)
		for i := range y {
			d := math.Abs(w[i]/sum-goal) / 0.3
			y[i] = 5 - 10*d*d/(1+d)
		}
	}
	noise := noiseAt(*n.p.Seed, n.sample, position, purposeDraw)
	win, best := -1, math.Inf(-1)
	for i, t := range c {
		u := (float64(noise.Word(t.id)) + 0.5) / (1 << 32)
		if s := y[i] - math.Log(-math.Log1p(-u)); s > best {
			win, best = i, s
		}
	}
	n.last, n.surprise, n.share = c[win].id, math.Log2(sum/math.Max(w[win], 1)), w[win]/sum
	return c[win].id
}

func (n *naive) accept(id int32) {
	n.output = append(n.output, id)
	if id == n.last {
		n.mu -= n.p.MirostatEta * (n.surprise - n.p.MirostatTau)
		n.sum = n.sum*n.p.AdaptiveDecay + n.share
		n.num = n.num*n.p.AdaptiveDecay + 1
	}
	n.last = -1
}
