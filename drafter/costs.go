package drafter

import (
	"math"
	"slices"
	"time"
)

// Costs predicts what a round takes: a table measured beforehand gives the shape,
// and what rounds really took corrects it. It is used by one goroutine at a time.
type Costs struct {
	tokens  []int       // of the table, ascending, from 1
	seconds []float64   // of a forward with logits for that many tokens, never falling
	few     [65]float64 // shape of 0 to 64 tokens
	scale   [costBins]float64
	level   float64 // of all rounds: follows context length and a busy machine
	seen    bool    // a round was learned, or a table was given
	draft   map[string]*draftCost
}

// Rounds are told apart by their number of tokens: exactly up to 4, then in bins
// of half an octave and finally of a quarter.
const costBins = 40

// Weights of the newest round in the running averages. What a number of tokens
// was seen to take moves fast. The level, which moves all of them, moves slowly:
// else a curve that is wrong for wide rounds would be taken for a slow machine
// while no other rounds are made, and never be found out.
const (
	levelWeight = 0.02
	shapeWeight = 0.1
	shapeReturn = 0.005
)

// assumed is the shape of the cost of a forward when nothing was measured: a
// fifth of a row's cost is shared by all rows. Real kernels do better.
func assumed(tokens int) float64 { return 0.2 + 0.8*float64(tokens) }

// NewCosts starts from a table of measured forwards by number of tokens; it may
// be empty.
func NewCosts(table map[int]time.Duration) *Costs {
	c := &Costs{level: 1, draft: map[string]*draftCost{}}
	for n, d := range table {
		if n >= 1 && d > 0 {
			c.tokens = append(c.tokens, n)
		}
	}
	slices.Sort(c.tokens)
	slowest := 0.0
	for _, n := range c.tokens {
		// More rows never take less time; where they seem to, the machine was busy.
		slowest = max(slowest, table[n].Seconds())
		c.seconds = append(c.seconds, slowest)
	}
	for n := range c.few {
		c.few[n] = c.interpolate(max(n, 1))
	}
	for i := range c.scale {
		c.scale[i] = 1
	}
	c.seen = len(c.tokens) > 0
	return c
}

// shape is the table, linear between and beyond its points.
func (c *Costs) shape(tokens int) float64 {
	if tokens < len(c.few) {
		return c.few[max(tokens, 0)]
	}
	return c.interpolate(tokens)
}

func (c *Costs) interpolate(tokens int) float64 {
	if len(c.tokens) < 2 {
		base := 1e-3
		if len(c.tokens) == 1 {
			base = c.seconds[0] / assumed(c.tokens[0])
		}
		return base * assumed(tokens)
	}
	i, _ := slices.BinarySearch(c.tokens, tokens)
	i = min(max(i, 1), len(c.tokens)-1)
	x0, x1, y0, y1 := float64(c.tokens[i-1]), float64(c.tokens[i]), c.seconds[i-1], c.seconds[i]
	return max(y0+(y1-y0)*(float64(tokens)-x0)/(x1-x0), 0.1*c.seconds[0])
}

// costBinOf are the bins of up to 64 tokens.
var costBinOf = func() (bins [65]int8) {
	for n := 1; n <= 64; n++ {
		bins[n] = int8(n - 1)
		if n > 4 {
			bins[n] = int8(2 * math.Log2(float64(n-1)))
		}
	}
	return bins
}()

func costBin(tokens int) int {
	if tokens <= 64 {
		return int(costBinOf[max(tokens, 1)])
	}
	return min(12+int(4*math.Log2(float64(tokens)/64)), costBins-1)
}

// Verify is the expected time of a forward over so many tokens, in seconds.
func (c *Costs) Verify(tokens int) float64 {
	return c.level * c.scale[costBin(tokens)] * c.shape(tokens)
}

// LearnVerify takes the time of a forward.
func (c *Costs) LearnVerify(tokens int, took time.Duration) {
	if tokens < 1 || took <= 0 {
		return
	}
	seen := took.Seconds() / c.shape(tokens)
	if !c.seen {
		c.seen, c.level = true, seen
	}
	b := costBin(tokens)
	// A forward that took many times what it should was interrupted.
	ratio := clamp(seen/(c.level*c.scale[b]), 0.5, 2)
	c.level *= 1 + levelWeight*(ratio-1)
	// What both could explain the level does in the long run: else the two drift
	// apart, and with them the sizes that are not seen.
	c.scale[b] = clamp(c.scale[b]+shapeWeight*(ratio-1)*c.scale[b]+shapeReturn*(1-c.scale[b]), 0.25, 4)
}

// draftOf is the cost of drafting with a kind.
func (c *Costs) draftOf(kind string) *draftCost {
	d := c.draft[kind]
	if d == nil {
		d = new(draftCost)
		c.draft[kind] = d
	}
	return d
}

// draftCost is what drafting with a kind takes: so much for the first proposal,
// so much for each further one, and so much for each position it owes.
type draftCost struct {
	steps line
	each  float64 // seconds per owed position
	owing bool    // each was measured
	begun bool    // was at work before
}

// known is false until the kind has drafted once without a debt.
func (d *draftCost) known() bool { return d.steps.n > 0 }

// at is the expected time of so many proposals in seconds; 0 while not known.
func (d *draftCost) at(steps float64) float64 {
	if !d.known() {
		return 0
	}
	return d.steps.at(steps)
}

// debt is the expected time of taking in so many owed positions before.
func (d *draftCost) debt(owed int) float64 {
	if !d.owing {
		// Positions that are only read are cheaper than those that are answered.
		return 0.5 * d.at(1) * float64(owed)
	}
	return d.each * float64(owed)
}

// learn takes the seconds that drafting took. The first time says nothing of those
// to come, since memory is touched and buffers grow. A time far from what is
// expected is an accident of the machine and counts as a moderate one.
func (d *draftCost) learn(steps, owed int, took float64) {
	if !d.begun {
		d.begun = true
		return
	}
	if owed > smallDebt {
		each := max(took-d.at(float64(steps)), 0) / float64(owed)
		if !d.known() {
			each = took / float64(owed+8*steps) // some of it was the proposing
		}
		if !d.owing {
			d.owing, d.each = true, each
		}
		d.each += 0.3 * (min(each, 4*d.each) - d.each)
		return
	}
	if d.known() {
		took = min(took, 4*d.at(float64(steps)))
	}
	d.steps.learn(float64(steps), took)
}

// line is a least-squares line through points that fade.
type line struct{ n, x, y, xx, xy float64 }

const lineMemory = 0.97

func (l *line) learn(x, y float64) {
	l.n = l.n*lineMemory + 1
	l.x = l.x*lineMemory + x
	l.y = l.y*lineMemory + y
	l.xx = l.xx*lineMemory + float64(x*x)
	l.xy = l.xy*lineMemory + float64(x*y)
}

// at is the line's value. Where all points lie at one place the line goes through
// the origin, which is how one step after the other costs. A line that points
// below a quarter of that was led astray by the times of a busy machine.
func (l *line) at(x float64) float64 {
	mx, my := l.x/l.n, l.y/l.n
	if mx <= 0 {
		return my
	}
	steps := my * x / mx
	if v := l.xx/l.n - float64(mx*mx); v > 1e-3 {
		slope := max((l.xy/l.n-float64(mx*my))/v, 0)
		return max(my+float64(slope*(x-mx)), 0.25*min(steps, my))
	}
	return steps
}

func clamp(x, lo, hi float64) float64 { return max(lo, min(hi, x)) }
