package report

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"surmise/bench"
)

func (r *Report) costPlot() (*plot.Plot, vg.Length, error) {
	if r.About.Costs == nil || len(r.About.Costs.Curves) == 0 {
		return nil, 0, nil
	}
	p := newPlot("rows", "ms")
	p.Y.Min = 0
	for n, c := range r.About.Costs.Curves {
		var xy plotter.XYs
		for _, q := range c.Points {
			xy = append(xy, plotter.XY{X: float64(q.Rows), Y: 1000 * q.Seconds})
		}
		if len(xy) == 0 {
			return nil, 0, nil
		}
		l, s, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, 0, err
		}
		fill := palette[1+n%(len(palette)-1)]
		l.Color, l.Width = fill, 1.6
		s.GlyphStyle = draw.GlyphStyle{Color: fill, Radius: 2.2, Shape: draw.CircleGlyph{}}
		p.Add(l, s)
		p.Legend.Add(fmt.Sprintf("%d cached", c.Context), l)
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, 3
	p.Legend.XOffs, p.Legend.YOffs = 6, -4
	p.Legend.TextStyle.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}
	return p, plotHeight, nil
}

func (r *Report) timePlot() (*plot.Plot, vg.Length, error) {
	p := newPlot("share of decode time", "")
	var names []string
	for i := range r.Entries {
		names = append(names, r.Entries[len(r.Entries)-1-i].Key)
	}
	for i, e := range r.Entries {
		s := e.Summary.Shares
		if s == (bench.Shares{}) {
			return nil, 0, nil
		}
		y := float64(len(r.Entries) - 1 - i)
		from := 0.0
		c := r.paint(i)
		dark := color.RGBA{c.R / 3, c.G / 3, c.B / 3, 255}
		light := color.RGBA{255 - (255-c.R)/3, 255 - (255-c.G)/3, 255 - (255-c.B)/3, 255}
		for _, part := range []struct {
			share float64
			fill  color.RGBA
		}{{s.Draft, dark}, {s.Verify, c}, {s.Sample, light}} {
			if part.share <= 0 {
				continue
			}
			to := from + part.share
			b, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: y - 0.33}, {X: to, Y: y - 0.33}, {X: to, Y: y + 0.33}, {X: from, Y: y + 0.33}})
			if err != nil {
				return nil, 0, err
			}
			b.Color, b.LineStyle.Width = part.fill, 0
			p.Add(b)
			from = to
		}
	}
	var ticks []plot.Tick
	for i, n := range names {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: n})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Min, p.X.Max = 0, 1
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	return p, rows(len(names)), nil
}
