package drafter

import (
	"math"
	"slices"
	"time"
)

// Costs predicts what a round takes: a table measured beforehand gives the shape,
// and what rounds really took corrects it. It is used by one goroutine at a time.
type Costs struct {
	tokens  []int     // of the table, ascending, from 1
	seconds []float64 // of a forward with logits for that many tokens
	scale   [costBins]float64
	level   float64 // of all rounds: follows context length and a busy machine
	seen    bool    // a round was learned, or a table was given
	draft   map[string]*line
}

// Rounds are told apart by their number of tokens, exactly up to 64 and in ever
// wider bins beyond.
const costBins = 64 + 16

// Weights of the newest round in the running averages. The level moves fast, for
// it follows the machine; the shape of the curve moves slowly.
const (
	levelWeight = 0.15
	shapeWeight = 0.05
)

// assumed is the shape of the cost of a forward when nothing was measured: a
// fifth of a row's cost is shared by all rows. Real kernels do better.
func assumed(tokens int) float64 { return 0.2 + 0.8*float64(tokens) }

// NewCosts starts from a table of measured forwards by number of tokens; it may
// be empty.
func NewCosts(table map[int]time.Duration) *Costs {
	c := &Costs{level: 1, draft: map[string]*line{}}
	for n, d := range table {
		if n >= 1 && d > 0 {
			c.tokens = append(c.tokens, n)
		}
	}
	slices.Sort(c.tokens)
	for _, n := range c.tokens {
		c.seconds = append(c.seconds, table[n].Seconds())
	}
	for i := range c.scale {
		c.scale[i] = 1
	}
	c.seen = len(c.tokens) > 0
	return c
}

// shape is the table, linear between and beyond its points.
func (c *Costs) shape(tokens int) float64 {
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

func costBin(tokens int) int {
	if tokens <= 64 {
		return max(tokens, 1) - 1
	}
	return min(64+int(4*math.Log2(float64(tokens)/64)), costBins-1)
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
	ratio := clamp(seen/(c.level*c.scale[b]), 0.25, 4)
	c.level *= math.Pow(ratio, levelWeight)
	c.scale[b] = clamp(c.scale[b]*math.Pow(ratio, shapeWeight), 0.25, 4)
}

// Draft is the expected time of drafting steps proposals with a kind, in seconds;
// known is false until the kind has drafted once.
func (c *Costs) Draft(kind string, steps int) (seconds float64, known bool) {
	l := c.draft[kind]
	if l == nil {
		return 0, false
	}
	return l.at(float64(steps)), true
}

// LearnDraft takes the time a kind took to draft steps proposals.
func (c *Costs) LearnDraft(kind string, steps int, took time.Duration) {
	l := c.draft[kind]
	if l == nil {
		l = new(line)
		c.draft[kind] = l
	}
	l.learn(float64(steps), took.Seconds())
}

// line is a least-squares line through points that fade.
type line struct{ n, x, y, xx, xy float64 }

const lineMemory = 0.97

func (l *line) learn(x, y float64) {
	for _, v := range []*float64{&l.n, &l.x, &l.y, &l.xx, &l.xy} {
		*v *= lineMemory
	}
	l.n++
	l.x += x
	l.y += y
	l.xx += x * x
	l.xy += x * y
}

// at is the line's value, never below 0. Where all points lie at one place the
// line goes through the origin, which is how one step after the other costs.
func (l *line) at(x float64) float64 {
	mx, my := l.x/l.n, l.y/l.n
	if v := l.xx/l.n - mx*mx; v > 1e-3 {
		slope := max((l.xy/l.n-mx*my)/v, 0)
		return max(my+slope*(x-mx), 0)
	}
	if mx <= 0 {
		return my
	}
	return my * x / mx
}

func clamp(x, lo, hi float64) float64 { return max(lo, min(hi, x)) }
