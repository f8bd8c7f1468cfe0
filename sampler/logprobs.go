package sampler

import (
	"math"
	"slices"

	"surmise/compute/vocab"
)

// rawLogprobs reports the model's own distribution. r is the row that was drawn
// from, whose maxima still hold when nothing was changed.
func (c *Chain) rawLogprobs(s *scratch, r *row, logits []float32, d *Draw) {
	c.top = c.top[:0]
	raw := *r
	if r.owned || s.edited {
		raw = row{z: logits, bm: s.tbm}
		raw.max, _ = vocab.Max(raw.bm, logits) // no NaN: the row was checked
	}
	raw.cut, raw.over = lowestCut, 0
	total, _ := raw.mass()
	logS := log(float64(total) / vocab.One)
	d.Logprob = float64(raw.z[d.Token]-raw.max) - logS
	if n := c.core.params.TopLogprobs; n > 0 {
		raw.narrow(s.topK(&raw, n))
		c.listTop(s.sorted(&raw), n, raw.max, 1, logS, d)
	}
}

// processed reports the distribution the token was drawn from: the survivors at
// the final temperature. (Adaptive-p: before its transformation.)
func (c *Chain) processed(s *scratch, r *row, d *Draw) {
	c.top = c.top[:0]
	invT, keys, total, top := s.finalInvT, s.keys[:0], uint64(0), r.max*s.finalInvT
	n := c.core.params.TopLogprobs
	if c.core.greedy {
		invT, top, s.few.list = 1, r.max, false
	}
	if s.few.list {
		top = float32(s.listMax(r) * invT)
		for _, id := range s.few.ids {
			total += uint64(vocab.Weight(float32(r.z[id]*invT) - top))
			keys = append(keys, keyOf(r.z[id], id))
		}
		slices.Sort(keys)
		slices.Reverse(keys)
	} else {
		t := s.tempered(r, invT)
		vocab.Weights(s.w, t.z, t.bm, t.max, t.lo())
		for i, w := range s.w {
			if w > 0 && r.keeps(int32(i)) {
				total += uint64(w)
			}
		}
		if n > 0 {
			best := *r
			best.narrow(s.topK(r, n))
			keys = s.sorted(&best)
		}
	}
	if math.IsInf(float64(top), 0) { // so cold that the top token has all the mass
		c.top = append(c.top, TokenLogprob{Token: d.Token})
		d.Logprob, d.Top = 0, c.top[:min(n, 1)]
		return
	}
	logS := log(float64(total) / vocab.One)
	d.Logprob = float64(float32(r.z[d.Token]*invT)-top) - logS
	if n > 0 {
		c.listTop(keys, n, top, invT, logS, d)
	}
}

// sorted returns the survivors' keys in order of rank.
func (s *scratch) sorted(r *row) []key {
	keys := s.collectKeys(r, r.lo())
	slices.Sort(keys)
	slices.Reverse(keys)
	return keys
}

func (c *Chain) listTop(keys []key, n int, top, invT float32, logS float64, d *Draw) {
	for _, k := range keys[:min(n, len(keys))] {
		lp := float64(float32(logitOf(k)*invT)-top) - logS
		c.top = append(c.top, TokenLogprob{idOf(k), lp})
	}
	d.Top = c.top
}

// Report returns for each of tokens what Sample reports in mode raw when it
// draws it: its log probability in the model's own distribution, and the
// distribution's top. The lists are new and shared between the draws.
func (c *Chain) Report(logits []float32, tokens []int32) ([]Draw, error) {
	if len(logits) != c.core.env.Vocab {
		return nil, errLogits(len(logits), c.core.env.Vocab)
	}
	s := c.core.pool.get(len(logits))
	defer c.core.pool.put(s)
	r, err := s.load(logits, false, 1)
	if err != nil {
		return nil, err
	}
	total, _ := r.mass()
	logS := log(float64(total) / vocab.One)
	var top Draw
	if n := c.core.params.TopLogprobs; n > 0 {
		best := *r
		best.narrow(s.topK(r, n))
		c.top = c.top[:0]
		c.listTop(s.sorted(&best), n, r.max, 1, logS, &top)
		top.Top = slices.Clone(top.Top)
	}
	out := make([]Draw, len(tokens))
	for i, t := range tokens {
		out[i] = Draw{t, float64(r.z[t]-r.max) - logS, top.Top}
	}
	return out, nil
}

// Top appends to dst the n most likely tokens after masks, bias and penalties
// (no filter, no temperature), best first, with the log of their probability in
// that distribution: what a beam search extends beams with.
func (c *Chain) Top(logits []float32, n int, dst []TokenLogprob) ([]TokenLogprob, error) {
	if len(logits) != c.core.env.Vocab {
		return dst, errLogits(len(logits), c.core.env.Vocab)
	}
	s := c.core.pool.get(len(logits))
	defer c.core.pool.put(s)
	s.editor.undo = s.editor.undo[:0]
	defer s.editor.restore(logits)
	r, err := c.prepare(s, logits)
	if err != nil {
		return dst, err
	}
	total, _ := r.mass()
	logS := log(float64(total) / vocab.One)
	r.narrow(s.topK(r, n))
	for _, k := range s.sorted(r) {
		dst = append(dst, TokenLogprob{idOf(k), float64(logitOf(k)-r.max) - logS})
	}
	return dst, nil
}
