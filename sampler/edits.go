package sampler

import (
	"math"
	"slices"

	"surmise/compute/vocab"
)

// edit applies steps 1 to 3 to the row. Few logits change, so they are changed
// where they are and put back by restore; only a constraint or a processor,
// which may change all of them, gets a copy.
func (c *Chain) edit(s *scratch, r *row) error {
	e := &s.editor
	e.row, e.all, e.copied, e.nan = r, false, r.owned, false
	e.dirty, e.undo = e.dirty[:0], e.undo[:0]
	if k := c.constraint; k != nil {
		if err := c.constrain(e, k); err != nil {
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
		if c.constraint != nil {
			c.banMasked(e) // whatever the processor wrote there
		}
	}
	c.penalize(e)
	if c.core.params.IgnoreEOS || c.outLen < c.core.params.MinNewTokens {
		for _, id := range c.core.eos {
			e.set(id, banned)
		}
	}
	if c.outLen < c.core.params.MinNewTokens {
		for _, id := range c.core.params.StopTokenIDs {
			e.set(id, banned)
		}
	}
	for _, id := range c.core.bans {
		e.set(id, banned)
	}
	e.done()
	return r.check(e.nan)
}

// copies reports whether the row must be a copy before it is edited.
func (c *Chain) copies() bool { return c.constraint != nil || c.core.processor != nil }

var banned = float32(math.Inf(-1))

// penalize applies step 3. Repetition and frequency/presence are one walk over
// the tokens seen, unless DRY has something to do between them.
func (c *Chain) penalize(e *editor) {
	p, h := &c.core.params, &c.history
	theta := max(float32(p.RepetitionPenalty), minTheta)
	repetition, counts := theta != 1, p.FrequencyPenalty != 0 || p.PresencePenalty != 0
	between := c.core.dryOn && c.findRepeats()
	switch {
	case repetition:
		e.repeat(p, h.table.entries, theta, counts && !between)
	case counts && !between:
		e.count(p, h.table.entries)
	}
	if between {
		c.dry(e)
		if counts {
			e.count(p, h.table.entries)
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

// repeat divides positive logits of the tokens in the window by theta and
// multiplies the others; with counts it goes on with frequency and presence. A
// history has thousands of tokens, and their signs cannot be predicted: so both
// results are made and one is chosen by the sign bit.
func (e *editor) repeat(p *Params, entries []entry, theta float32, counts bool) {
	z, bm := e.row.z, e.row.bm
	base := len(e.undo)
	e.undo = slices.Grow(e.undo, len(entries))[:base+len(entries)]
	undo := e.undo[base:]
	for i := range entries {
		t := &entries[i]
		old := z[t.id]
		v := old
		if t.window > 0 {
			negative := uint32(int32(math.Float32bits(v)) >> 31)
			v = math.Float32frombits(math.Float32bits(v/theta)&^negative | math.Float32bits(v*theta)&negative)
		}
		if counts && t.output > 0 {
			v = p.counted(v, t.output)
		}
		z[t.id] = v
		undo[i] = change{t.id, old}
		if b := t.id / vocab.Block; v > bm[b] || old >= bm[b] {
			e.moved(b, old, v)
		}
	}
}

// count applies frequency and presence penalties.
func (e *editor) count(p *Params, entries []entry) {
	for i := range entries {
		if t := &entries[i]; t.output > 0 {
			e.set(t.id, p.counted(e.row.z[t.id], t.output))
		}
	}
}

// counted applies frequency and presence penalty for n > 0 occurrences.
func (p *Params) counted(v float32, n int32) float32 {
	return float32(float64(v) - (float64(p.FrequencyPenalty*float64(n)) + p.PresencePenalty))
}

// findRepeats collects the tokens that would continue a repetition longer than
// allowed, each with its longest match, and reports whether there are any.
func (c *Chain) findRepeats() bool {
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
	return len(c.longest.entries) > 0
}

// dry lowers what findRepeats found by multiplier·base^(length − allowed).
func (c *Chain) dry(e *editor) {
	p := &c.core.params
	for i := range c.longest.entries {
		t := &c.longest.entries[i]
		pen := min(float64(p.DRYMultiplier*powi(p.DRYBase, int(t.window)-p.DRYAllowedLength)), maxPenalty)
		e.set(t.id, float32(float64(e.row.z[t.id])-pen))
	}
}

// minTheta keeps the repetition penalty from dividing zero by zero.
const minTheta = 1e-30

// maxPenalty keeps a DRY penalty finite.
const maxPenalty = 1e30

func (t *table) reset() {
	if len(t.entries) > 0 {
		t.entries = t.entries[:0]
		clear(t.slots)
	}
}

// editor changes single logits of a row and keeps its maxima true: most tokens
// are not the maximum of their block, so most changes cost nothing more.
type editor struct {
	row   *row
	undo  []change // in order
	dirty []int32  // blocks that may have lost their maximum
	all   bool     // anything may have changed
	// copied says that the row is not the caller's.
	copied bool
	nan    bool // a processor left a NaN behind
}

// change remembers a logit from before it was changed.
type change struct {
	id  int32
	old float32
}

func (e *editor) set(id int32, v float32) {
	r := e.row
	old, m := r.z[id], r.bm[id/vocab.Block]
	r.z[id] = v
	e.undo = append(e.undo, change{id, old})
	if v > m || old >= m {
		e.moved(id/vocab.Block, old, v)
	}
}

// moved deals with a change of a block's maximum from old to v, or to v.
func (e *editor) moved(b int32, old, v float32) {
	r := e.row
	if v > r.bm[b] {
		r.bm[b] = v
		r.max = max(r.max, v)
	} else if v < old {
		e.dirty = append(e.dirty, b)
	}
}

// done makes the row's maxima right.
func (e *editor) done() {
	r := e.row
	if e.all {
		r.max, e.nan = vocab.Max(r.bm, r.z)
		return
	}
	lost := false
	for _, b := range e.dirty {
		i, before := int(b)*vocab.Block, r.bm[b]
		m, _ := vocab.Max(r.bm[b:b+1], r.z[i:min(i+vocab.Block, len(r.z))])
		lost = lost || before >= r.max && m < before
	}
	if lost {
		r.max = banned
		for _, m := range r.bm {
			if m > r.max { // the built-in max minds NaN and −0, and is slow
				r.max = m
			}
		}
	}
}

// restore puts the caller's logits back, unless the row was a copy.
func (e *editor) restore(logits []float32) {
	if e.copied {
		return
	}
	for i := len(e.undo) - 1; i >= 0; i-- {
		logits[e.undo[i].id] = e.undo[i].old
	}
	e.undo = e.undo[:0]
}

// constrain bans what the constraint does not allow.
func (c *Chain) constrain(e *editor, k Constraint) error {
	mask := c.mask[:(len(e.row.z)+63)/64]
	clear(mask)
	if err := k.Allowed(mask); err != nil {
		return err
	}
	c.banMasked(e)
	return nil
}

// banMasked bans the tokens whose bits the constraint has not set.
func (c *Chain) banMasked(e *editor) {
	mask := c.mask[:(len(e.row.z)+63)/64]
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
}
