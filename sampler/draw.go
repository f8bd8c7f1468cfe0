package sampler

import (
	"math"

	"surmise/compute/vocab"
)

// setFilters applies step 5. Without renormalizing, all three look at the
// distribution before any of them; with it, each at what the last one left.
func (c *Chain) setFilters(s *scratch, r *row, renormalize bool) {
	p := &c.core.params
	if c.core.env.Reference.Sort {
		c.setFiltersSorted(s, r, renormalize)
		return
	}
	topP := p.TopP < 1
	var total uint64
	if topP && !renormalize {
		total, _ = r.mass()
	}
	before := *r
	if p.MinP > 0 {
		c.guardFrom(s, &before, r, s.byWeight(r, atLeast(slack(share(p.MinP, vocab.One)))))
	}
	if p.TopK > 1 && p.TopK < len(r.z) {
		c.guardFrom(s, &before, r, s.topK(r, p.TopK))
	}
	if topP {
		from := *r
		if renormalize {
			from = before
			if p.TopK > 1 {
				from.narrow(s.topK(&before, max(p.TopK, p.MinKeep)))
			} // min-p compares with the top token, so its place does not matter
			total, _ = from.mass()
		}
		c.guardFrom(s, &before, r, s.byMass(&from, max(slack(share(p.TopP, total)), 1)))
	}
}

// guardFrom is guard for a cutoff that was found on the row before.
func (c *Chain) guardFrom(s *scratch, before, r *row, f cutoff) {
	if k := c.core.params.MinKeep; k > 1 && f.cut > before.cut {
		f = least(f, s.topK(before, k))
	}
	r.narrow(f)
}

// listRoom is the number of survivors up to which they are drawn from a list;
// more are raced through in the row itself.
const listRoom = 2048

// survivors of a row after step 5: ids, when they are few.
type survivors struct {
	ids  []int32
	list bool
}

// gather lists the survivors if they are few.
func (s *scratch) gather(r *row, always bool) {
	s.few.list = false
	if r.cut == lowestCut && !always {
		return
	}
	n := vocab.Collect(s.list, r.z, r.bm, r.lo())
	if n-r.over > listRoom && !always {
		return
	}
	ids := s.list[:0]
	for _, id := range s.list[:n] {
		if r.over == 0 || r.keeps(id) {
			ids = append(ids, id)
		}
	}
	s.few = survivors{ids, true}
}

// best is the winner so far of a race: the highest score, then the lowest id.
type best struct {
	score float64
	id    int32
}

func (b *best) offer(score float64, id int32) {
	if score > b.score || (score == b.score && id < b.id) || b.id < 0 {
		b.score, b.id = score, id
	}
}

// draw returns argmax of z·invT + gumbel(id) over the survivors.
func (c *Chain) draw(s *scratch, r *row, invT float32) int32 {
	if math.IsInf(float64(r.max*invT), 0) {
		return c.first(s, r) // no noise can move logits this large
	}
	n := noiseAt(c.core.seed, c.sample, c.length, purposeDraw)
	if s.few.list {
		return drawList(n, s.few.ids, r.z, invT)
	}
	if c.core.env.Reference.PlainNoise {
		b := best{math.Inf(-1), -1}
		for i, v := range r.z {
			if r.keeps(int32(i)) {
				b.offer(float64(v*invT)+gumbel(n, int32(i), n.Word(int32(i))), int32(i))
			}
		}
		return b.id
	}
	return s.race(n, r, invT)
}

func drawList(n vocab.Noise, ids []int32, z []float32, invT float32) int32 {
	b := best{math.Inf(-1), -1}
	for _, id := range ids {
		b.offer(float64(z[id]*invT)+gumbel(n, id, n.Word(id)), id)
	}
	return b.id
}

// first returns the survivor with the largest logit.
func (c *Chain) first(s *scratch, r *row) int32 {
	if s.few.list {
		b := best{math.Inf(-1), -1}
		for _, id := range s.few.ids {
			b.offer(float64(r.z[id]), id)
		}
		return b.id
	}
	return int32(vocab.Argmax(r.z, r.bm, r.max))
}

// raceChunk is the number of tokens between two updates of the score to beat.
const raceChunk = 16 * vocab.Block

// race draws from all survivors in the row, evaluating the noise only of tokens
// that can still win.
func (s *scratch) race(n vocab.Noise, r *row, invT float32) int32 {
	b := best{math.Inf(-1), -1}
	top := int32(vocab.Argmax(r.z, r.bm, r.max))
	b.offer(float64(r.max*invT)+gumbel(n, top, n.Word(top)), top)
	v := vocab.Race{Noise: n, InvT: invT}
	cut := r.lo()
	for i := 0; i < len(r.z); i += raceChunk {
		end := min(i+raceChunk, len(r.z))
		v.Best = float32(b.score)
		if float64(v.Best) > b.score {
			v.Best = math.Nextafter32(v.Best, float32(math.Inf(-1)))
		}
		v.Lo = max(cut, reach(b.score, invT))
		bm := r.bm[i/vocab.Block : vocab.Blocks(end)]
		k := v.Run(s.ids, s.words, r.z[i:end], bm, int32(i))
		for j, id := range s.ids[:k] {
			if r.over == 0 || r.keeps(id) {
				b.offer(float64(r.z[id]*invT)+gumbel(n, id, s.words[j]), id)
			}
		}
	}
	return b.id
}

// reach returns a logit below which no noise (at most 45.1) reaches score.
func reach(score float64, invT float32) float32 {
	y := score - 46
	if math.Abs(score) > 1e5 {
		return -math.MaxFloat32 // the margin would drown in rounding
	}
	z := float64(y/float64(invT)) - float64(1e-6*math.Abs(y/float64(invT)))
	return float32(max(z, -math.MaxFloat32))
}
