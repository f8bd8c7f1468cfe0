package bench

import (
	"slices"
	"time"

	"surmise/engine/costs"
)

// Costs are measured times of forwards, with which times are predicted.
type Costs struct {
	Curves []Curve `json:"curves"`
	// SampleSeconds is the time of drawing a token from logits.
	SampleSeconds float64 `json:"sample_s,omitempty"`
	// RoundSeconds is what a round takes beside forward, sampling and drafting.
	RoundSeconds float64 `json:"round_s,omitempty"`
}

// Curve is the time of a forward by its number of rows, of one sequence with so
// many cached positions.
type Curve struct {
	Context int     `json:"context"`
	Points  []Point `json:"points"` // ascending
}

// Point is the time of a forward of so many rows.
type Point struct {
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
}

// CurveOf takes a measured table.
func CurveOf(t costs.Table) Curve {
	c := Curve{Context: t.Context}
	for rows, d := range t.Forward {
		c.Points = append(c.Points, Point{rows, d.Seconds()})
	}
	slices.SortFunc(c.Points, func(a, b Point) int { return a.Rows - b.Rows })
	return c
}

// at is linear between and beyond the points.
func (c Curve) at(rows int) float64 {
	p := c.Points
	if len(p) == 0 {
		return 0
	}
	if len(p) == 1 {
		return p[0].Seconds
	}
	i := 1
	for i < len(p)-1 && p[i].Rows < rows {
		i++
	}
	a, b := p[i-1], p[i]
	return max(a.Seconds+(b.Seconds-a.Seconds)*float64(rows-a.Rows)/float64(b.Rows-a.Rows), 0)
}

// Forward is the expected time of a forward of so many rows behind so many
// cached positions, linear in both; 0 without curves.
func (c *Costs) Forward(rows, context int) time.Duration {
	if c == nil || len(c.Curves) == 0 {
		return 0
	}
	first := c.Curves[0]
	s := first.at(rows)
	if len(c.Curves) > 1 {
		last := c.Curves[len(c.Curves)-1]
		if last.Context > first.Context {
			s += (last.at(rows) - s) * float64(context-first.Context) / float64(last.Context-first.Context)
		}
	}
	return time.Duration(max(s, 0) * float64(time.Second))
}

// Table is the first curve as a table for the automatic width.
func (c *Costs) Table() map[int]time.Duration {
	if c == nil || len(c.Curves) == 0 {
		return nil
	}
	out := map[int]time.Duration{}
	for _, p := range c.Curves[0].Points {
		out[p.Rows] = time.Duration(p.Seconds * float64(time.Second))
	}
	return out
}

// Round is the expected time of a round of so many rows behind so many cached
// positions, but for sampling and drafting; 0 of nil.
func (c *Costs) Round(rows, context int) time.Duration {
	if c == nil {
		return 0
	}
	return c.Forward(rows, context) + time.Duration(c.RoundSeconds*float64(time.Second))
}

// SampleTime is SampleSeconds, 0 of nil.
func (c *Costs) SampleTime() float64 {
	if c == nil {
		return 0
	}
	return c.SampleSeconds
}
