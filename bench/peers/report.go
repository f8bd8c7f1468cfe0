package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// best is the least of the other engines' values; NaN where there is none.
func (l line) best() float64 {
	if len(l.Values) < 2 {
		return math.NaN()
	}
	return slices.Min(l.Values[1:])
}

// ratio tells how many times the best of the others takes what surmise takes:
// above 1 surmise is ahead.
func (l line) ratio() float64 { return l.best() / l.Values[0] }

// print writes a table in Markdown.
func (r *report) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d threads, %s; the engines' logits have a cosine of %.5f.\n\n", r.Model, r.Threads, r.Statistic, r.Agreement)
	fmt.Fprintf(&b, "| | unit | %s | best ÷ surmise | tokens/s |\n|---|---|%s---|---|\n",
		strings.Join(r.Engines, " | "), strings.Repeat("---|", len(r.Engines)))
	for _, l := range r.Lines {
		fmt.Fprintf(&b, "| %s | %s |", l.What, l.Unit)
		for _, v := range l.Values {
			fmt.Fprintf(&b, " %s |", digits(v))
		}
		fmt.Fprintf(&b, " %s |", digits(l.ratio()))
		if l.tokens > 0 {
			fmt.Fprintf(&b, " %s against %s |\n", digits(l.rate(l.Values[0])), digits(l.rate(l.best())))
		} else {
			b.WriteString(" |\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rate is tokens per second.
func (l line) rate(ms float64) float64 { return float64(l.tokens) / ms * 1000 }

// digits writes a number with about three of them.
func digits(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *report) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
