package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"regexp"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"surmise/bench"
)

// Plots are this large, so that on a phone, where a plot takes the width of the
// screen, its text has the size of the text around it.
const (
	plotWidth  = vg.Length(330)
	plotHeight = vg.Length(235)
)

// palette are the colours of entries, distinct also for most colour-blind eyes
// (Okabe and Ito, Color Universal Design, 2008), plain decoding first.
var palette = []color.RGBA{
	{110, 110, 110, 255},
	{0, 114, 178, 255},
	{213, 94, 0, 255},
	{0, 158, 115, 255},
	{204, 121, 167, 255},
	{230, 159, 0, 255},
	{86, 180, 233, 255},
	{120, 80, 40, 255},
	{150, 140, 0, 255},
}

// paint is the colour of entry n.
func (r *Report) paint(n int) color.RGBA {
	if r.Entries[n].Config.Plain() {
		return palette[0]
	}
	return palette[1+n%(len(palette)-1)]
}

// figure is a plot on the page.
type figure struct {
	Title, Caption string
	SVG            []byte
}

var (
	ink  = color.RGBA{60, 60, 60, 255}
	pale = color.RGBA{225, 225, 225, 255}
)

// newPlot has the look of the page.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Tick.Color = pale, pale
		for _, t := range []*draw.TextStyle{&a.Label.TextStyle, &a.Tick.Label} {
			t.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10.5}
			t.Color = ink
		}
		a.Padding = 4
	}
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = pale, pale
	p.Add(g)
	return p
}

// size is the size that gonum writes, in points; the page decides instead.
var size = regexp.MustCompile(`(?s)^.*?<svg width="[^"]*" height="[^"]*"`)

// svg draws a plot for inlining.
func svg(p *plot.Plot, height vg.Length) ([]byte, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(plotWidth, height), vgsvg.EmbedFonts(false))
	// Room for half of the last tick's label, which gonum does not count in.
	p.Draw(draw.Crop(draw.New(c), 0, -12, 0, -4))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	return size.ReplaceAll(b.Bytes(), []byte(`<svg role="img"`)), nil
}

// figures are all plots that there is something to show in.
func (r *Report) figures() ([]figure, error) {
	var out []figure
	for _, f := range []struct {
		title, caption string
		make           func() (*plot.Plot, vg.Length, error)
	}{
		{"Speedup", "Tokens per second against plain decoding (the line at 1), with 95 % intervals.", r.speedupPlot},
		{"Speedup by category", "Dots are estimates, bars 95 % intervals.", r.categorySpeedupPlot},
		{"Acceptance by position", "Solid: of drafts that proposed a token there and had all before it accepted. Dashed: of all drafts. Positions that fewer than 5 drafts came to are left out.", r.positionPlot},
		{"Acceptance length by category", "Mean tokens that a drafted round emits, the bonus token included.", r.categoryLengthPlot},
		{"Accepted tokens per draft", "Share of drafts by number of accepted tokens.", r.histogramPlot},
		{"Cost of verifying", "Time of one forward by its number of rows: 1 is plain decoding, 1 + k verifies k proposals.", r.costPlot},
		{"Where decode time goes", "Dark: drafting. Colour: the target's forwards. Pale: sampling. White: the rest.", r.timePlot},
	} {
		p, height, err := f.make()
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", f.title, err)
		}
		if p == nil {
			continue
		}
		data, err := svg(p, height)
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", f.title, err)
		}
		out = append(out, figure{f.title, f.caption, data})
	}
	return out, nil
}

// rows is the height of a plot with so many rows of dots.
func rows(n int) vg.Length { return max(115, vg.Length(n)*24+55) }

// dot is an estimate in row y.
type dot struct {
	y    float64
	v    bench.Interval
	fill color.RGBA
}

// dots draws estimates from left to right, rows from top to bottom.
func dots(p *plot.Plot, all []dot, names []string, bars bool) error {
	for _, d := range all {
		at := plotter.XY{X: d.v.Mean, Y: float64(len(names)-1) - d.y}
		if bars && d.v.High > d.v.Low {
			l, err := plotter.NewLine(plotter.XYs{{X: d.v.Low, Y: at.Y}, {X: d.v.High, Y: at.Y}})
			if err != nil {
				return err
			}
			l.Color, l.Width = d.fill, 2
			p.Add(l)
		}
		s, err := plotter.NewScatter(plotter.XYs{at})
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: d.fill, Radius: 3.6, Shape: draw.CircleGlyph{}}
		p.Add(s)
	}
	var ticks []plot.Tick
	for i, n := range names {
		ticks = append(ticks, plot.Tick{Value: float64(len(names) - 1 - i), Label: n})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	margin := max(0.03*(p.X.Max-p.X.Min), 0.01)
	p.X.Min, p.X.Max = p.X.Min-margin, p.X.Max+margin
	return nil
}

// reference draws the line that speedups are measured from.
func reference(p *plot.Plot, x float64, count int) error {
	l, err := plotter.NewLine(plotter.XYs{{X: x, Y: -0.6}, {X: x, Y: float64(count) - 0.4}})
	if err != nil {
		return err
	}
	l.Color, l.Dashes = ink, []vg.Length{3, 3}
	p.Add(l)
	return nil
}

func (r *Report) speedupPlot() (*plot.Plot, vg.Length, error) {
	var all []dot
	var names []string
	for i, e := range r.Entries {
		if e.Summary.Speedup != nil {
			all = append(all, dot{float64(len(names)), *e.Summary.Speedup, r.paint(i)})
			names = append(names, e.Key)
		}
	}
	if len(all) == 0 {
		return nil, 0, nil
	}
	p := newPlot("speedup", "")
	if err := reference(p, 1, len(names)); err != nil {
		return nil, 0, err
	}
	return p, rows(len(names)), dots(p, all, names, true)
}

// byCategory puts the entries' dots of a category side by side in its row.
func (r *Report) byCategory(of func(*bench.Summary) *bench.Interval) (all []dot, names []string) {
	names = r.names()
	entries := len(r.drafting())
	for row, name := range names {
		n := 0
		for i := range r.Entries {
			e := &r.Entries[i]
			if e.Config.Plain() {
				continue
			}
			n++
			if s := e.in(name); s != nil {
				if v := of(s); v != nil {
					shift := (float64(n)/float64(entries+1) - 0.5) * 0.8
					all = append(all, dot{float64(row) + shift, *v, r.paint(i)})
				}
			}
		}
	}
	return all, names
}

func (r *Report) categorySpeedupPlot() (*plot.Plot, vg.Length, error) {
	all, names := r.byCategory(func(s *bench.Summary) *bench.Interval { return s.Speedup })
	if len(all) == 0 || len(names) < 2 {
		return nil, 0, nil
	}
	p := newPlot("speedup", "")
	if err := reference(p, 1, len(names)); err != nil {
		return nil, 0, err
	}
	return p, rows(len(all) / 2), dots(p, all, names, true)
}

func (r *Report) categoryLengthPlot() (*plot.Plot, vg.Length, error) {
	all, names := r.byCategory(func(s *bench.Summary) *bench.Interval {
		if s.Counts.Drafts == 0 {
			return nil
		}
		m := s.MeanAcceptanceLength
		return &bench.Interval{Mean: m, Low: m, High: m}
	})
	if len(all) == 0 || len(names) < 2 {
		return nil, 0, nil
	}
	p := newPlot("mean acceptance length", "")
	p.X.Min = 1
	return p, rows(len(all) / 2), dots(p, all, names, false)
}

// plotPositions is how many positions are drawn, as far as at least the fewest
// drafts got there.
const (
	plotPositions = 16
	fewest        = 5
)

// line adds a line with dots through values at 1, 2, ….
func line(p *plot.Plot, values []float64, first float64, fill color.RGBA, dashed bool) error {
	var xy plotter.XYs
	for i, v := range values {
		xy = append(xy, plotter.XY{X: first + float64(i), Y: v})
	}
	l, s, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	l.Color, l.Width = fill, 1.6
	s.GlyphStyle = draw.GlyphStyle{Color: fill, Radius: 2.2, Shape: draw.CircleGlyph{}}
	if dashed {
		l.Dashes = []vg.Length{4, 3}
		s.Shape = draw.RingGlyph{}
	}
	p.Add(l, s)
	return nil
}

func (r *Report) positionPlot() (*plot.Plot, vg.Length, error) {
	p := newPlot("position in the proposal", "accepted")
	p.Y.Min, p.Y.Max, p.X.Min = 0, 1.02, 1
	longest := 1
	for i, e := range r.Entries {
		u, c := e.Summary.Unconditional, e.Summary.Conditional
		if len(c) == 0 {
			continue
		}
		n := min(len(c), plotPositions)
		for n > 0 && e.Summary.Counts.Tried[n-1] < fewest {
			n--
		}
		if n == 0 {
			continue
		}
		u, c = u[:n], c[:n]
		longest = max(longest, len(c))
		if err := line(p, c, 1, r.paint(i), false); err != nil {
			return nil, 0, err
		}
		if err := line(p, u, 1, r.paint(i), true); err != nil {
			return nil, 0, err
		}
	}
	if longest < 2 {
		return nil, 0, nil
	}
	p.X.Max = float64(longest)
	p.X.Tick.Marker = whole{}
	return p, plotHeight, nil
}

func (r *Report) histogramPlot() (*plot.Plot, vg.Length, error) {
	p := newPlot("accepted tokens", "share of drafts")
	p.Y.Min, p.X.Min = 0, 0
	longest := 0
	for i, e := range r.Entries {
		var shares []float64
		for _, n := range e.Summary.Histogram {
			if len(shares) <= plotPositions {
				shares = append(shares, float64(n)/float64(e.Summary.Counts.Drafts))
			}
		}
		if len(shares) == 0 {
			continue
		}
		longest = max(longest, len(shares)-1)
		if err := line(p, shares, 0, r.paint(i), false); err != nil {
			return nil, 0, err
		}
	}
	if longest == 0 {
		return nil, 0, nil
	}
	p.X.Max = float64(longest)
	p.X.Tick.Marker = whole{}
	return p, plotHeight, nil
}

// whole ticks whole numbers.
type whole struct{}

// Ticks implements plot.Ticker.
func (whole) Ticks(lo, hi float64) []plot.Tick {
	step := max(1, math.Ceil((hi-lo)/8))
	var out []plot.Tick
	for x := math.Ceil(lo); x <= hi+1e-9; x += step {
		out = append(out, plot.Tick{Value: x, Label: fmt.Sprintf("%.0f", x)})
	}
	return out
}
