package sampler

import (
	"math"

	"surmise/compute/vocab"
)

// edit applies masks, bias and penalties to an owned row.
func (c *Chain) edit(s *scratch, r *row) error {
	e := editor{row: r, dirty: s.dirty[:0]}
	if k := c.constraint; k != nil {
		if err := c.constrain(&e, s, k); err != nil {
			return err
		}
	}
	for _, b := range c.core.bias {
		e.set(b.id, r.z[b.id]+b.value)
	}
	if f := c.core.processor; f != nil {
		if err := f.Process(r.z, c.output); err != nil {
			return err
		}
		e.all = true
	}
	c.penalize(&e)
	if c.core.params.IgnoreEOS || c.outLen < c.core.params.MinNewTokens {
		for _, id := range c.core.eos {
			e.set(id, banned)
		}
	}
	if c.outLen < c.core.params.MinNewTokens {
		for _, id := range c.core.params.StopTokenIDs {
			if int(id) < len(r.z) {
				e.set(id, banned)
			}
		}
	}
	for _, id := range c.core.bans {
		e.set(id, banned)
	}
	e.done()
	s.dirty = e.dirty
	return nil
}

var banned = float32(math.Inf(-1))

// penalize applies step 3.
func (c *Chain) penalize(e *editor) {
	p, h := &c.core.params, &c.history
	z := e.row.z
	if p.RepetitionPenalty != 1 {
		theta := float32(p.RepetitionPenalty)
		for i := range h.table.entries {
			if t := &h.table.entries[i]; t.window > 0 {
				if v := z[t.id]; v > 0 {
					e.set(t.id, v/theta)
				} else {
					e.set(t.id, v*theta)
				}
			}
		}
	}
	if c.core.dryOn {
		c.dry(e)
	}
	if p.FrequencyPenalty != 0 || p.PresencePenalty != 0 {
		f, q := p.FrequencyPenalty, p.PresencePenalty
		for i := range h.table.entries {
			if t := &h.table.entries[i]; t.output > 0 {
				e.set(t.id, float32(float64(z[t.id])-(float64(f*float64(t.output))+q)))
			}
		}
	}
	switch n := int32(p.NoRepeatNgramSize); {
	case n == 1:
		for i := range h.table.entries {
			e.set(h.table.entries[i].id, banned)
		}
	case n > 1:
		for _, m := range h.ngram.active {
			if m.n >= n-1 {
				e.set(h.tokens[m.end+1], banned)
			}
		}
	}
}

// dry lowers every token that would continue a repetition longer than allowed
// by multiplier·base^(length − allowed); the longest match of a token decides.
func (c *Chain) dry(e *editor) {
	p, h := &c.core.params, &c.history
	start := int32(windowStart(len(h.tokens), p.DRYPenaltyLastN))
	c.longest.reset()
	for _, m := range h.dry.active {
		if m.end < start {
			break
		}
		n := min(m.n, m.end-start+1)
		if int(n) <= p.DRYAllowedLength {
			continue
		}
		t := c.longest.at(h.tokens[m.end+1])
		t.window = max(t.window, n)
	}
	for i := range c.longest.entries {
		t := &c.longest.entries[i]
		pen := min(float64(p.DRYMultiplier*powi(p.DRYBase, int(t.window)-p.DRYAllowedLength)), maxPenalty)
		e.set(t.id, float32(float64(e.row.z[t.id])-pen))
	}
}

// maxPenalty keeps a DRY penalty finite.
const maxPenalty = 1e30

func (t *table) reset() {
	if len(t.entries) > 0 {
		t.entries = t.entries[:0]
		clear(t.slots)
	}
}

// editor changes single logits of a row and keeps its block maxima true: most
// tokens are not the maximum of their block, so most changes cost nothing more.
type editor struct {
	row   *row
	dirty []int32
	all   bool // too much has changed: find every maximum again
}

func (e *editor) set(id int32, v float32) {
	r := e.row
	old, b := r.z[id], id/vocab.Block
	r.z[id] = v
	switch m := r.bm[b]; {
	case v > m:
		r.bm[b] = v
		e.note(b)
	case old >= m && v < old:
		e.note(b)
	}
}

func (e *editor) note(b int32) {
	if len(e.dirty) == cap(e.dirty) {
		e.all = true
		return
	}
	e.dirty = append(e.dirty, b)
}

// done makes the row's maxima right.
func (e *editor) done() {
	r := e.row
	if e.all {
		r.refresh()
		return
	}
	if len(e.dirty) == 0 {
		return
	}
	for _, b := range e.dirty {
		i := int(b) * vocab.Block
		vocab.Max(r.bm[b:b+1], r.z[i:min(i+vocab.Block, len(r.z))])
	}
	r.max = banned
	for _, m := range r.bm {
		r.max = max(r.max, m)
	}
}

// constrain bans what the constraint does not allow.
func (c *Chain) constrain(e *editor, s *scratch, k Constraint) error {
	mask := c.mask[:(len(e.row.z)+63)/64]
	clear(mask)
	if err := k.Allowed(mask); err != nil {
		return err
	}
	for b, bits := range mask {
		if bits == math.MaxUint64 {
			continue
		}
		for i := b * 64; i < min((b+1)*64, len(e.row.z)); i++ {
			if bits>>(i&63)&1 == 0 {
				e.row.z[i] = banned
			}
		}
	}
	e.all = true
	return nil
}
