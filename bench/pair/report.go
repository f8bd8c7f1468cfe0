package pair

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"surmise/bench"
)

// Report is what a target and its drafters come to.
type Report struct {
	About   bench.About `json:"about"`
	Pairs   []Pair      `json:"pairs"`
	Advice  Advice      `json:"advice"`
	Skipped int         `json:"questions_skipped,omitempty"`
}

// Pair is a target with one drafter.
type Pair struct {
	Kind  string `json:"kind"`
	Draft string `json:"draft_model,omitempty"`
	// Unfit says why the two do not go together; the rest is empty then.
	Unfit string `json:"unfit,omitempty"`
	Probe *Probe `json:"probe,omitempty"`
	// Predicted are the summaries by width.
	Predicted []Width `json:"predicted,omitempty"`
	// Compared are the widths that were measured too.
	Compared []Measured `json:"compared,omitempty"`
}

// Width is the prediction for a width.
type Width struct {
	Width   string        `json:"width"`
	Summary bench.Summary `json:"summary"`
}

// Measured is a way of decoding with predictions beside measurements, over all
// requests first, then by category.
type Measured struct {
	Config      bench.Config `json:"config"`
	Comparisons []Comparison `json:"comparisons"`
}

// JSON writes reports as one indented array.
func JSON(w io.Writer, reports []*Report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(reports); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// Table writes a report for a terminal.
func (r *Report) Table(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "target %s, %s\n\n", r.About.Target.Path, r.About.Data)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "drafter\toverlap\tagreement\twidth\taccept len\tpredicted\tmeasured\toff")
	for i := range r.Pairs {
		r.Pairs[i].rows(t)
	}
	_ = t.Flush()
	r.categories(&b)
	for _, p := range r.Pairs {
		if p.Unfit != "" {
			fmt.Fprintf(&b, "\n%s does not fit: %s\n", name(p.Kind, p.Draft), p.Unfit)
		}
	}
	fmt.Fprintf(&b, "\nuse: %s\n     (%s)\n\n", r.Advice.Flags, r.Advice.Why)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func name(kind, draft string) string {
	return bench.Config{Kind: kind, Draft: draft, Width: ""}.Drafter()
}

// rows are those of a pair: the best predicted width, and what was measured.
func (p *Pair) rows(w io.Writer) {
	if p.Unfit != "" {
		fmt.Fprintf(w, "%s\tdoes not fit\n", name(p.Kind, p.Draft))
		return
	}
	overlap := "–"
	if p.Probe.Compared > 0 {
		overlap = fmt.Sprintf("%.3f", p.Probe.Overlap)
	}
	lead := fmt.Sprintf("%s\t%s\t%.3f of %d", name(p.Kind, p.Draft), overlap, p.Probe.Agreement, p.Probe.Proposed)
	measured := map[string]*Comparison{}
	for i := range p.Compared {
		measured[p.Compared[i].Config.Width] = &p.Compared[i].Comparisons[0]
	}
	for _, x := range p.Predicted {
		speedup := "–"
		if x.Summary.Speedup != nil {
			speedup = fmt.Sprintf("%.2f", x.Summary.Speedup.Mean)
		}
		length := fmt.Sprintf("%.2f", x.Summary.MeanAcceptanceLength)
		found, off := "", ""
		if m := measured[x.Width]; m != nil && m.Measured != nil {
			length += fmt.Sprintf(" / %.2f", m.Lengths.Measured)
			found = fmt.Sprintf("%.2f (%.2f–%.2f)", m.Measured.Mean, m.Measured.Low, m.Measured.High)
			off = fmt.Sprintf("%+.1f %%", 100*m.Error())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", lead, x.Width, length, speedup, found, off)
		lead = "\t\t"
	}
}

// categories shows predictions beside measurements by category.
func (r *Report) categories(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nby category: predicted, measured speedup, off\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, p := range r.Pairs {
		for _, m := range p.Compared {
			for _, c := range m.Comparisons[1:] {
				if c.Measured != nil {
					fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f (%.2f–%.2f)\t%+.1f %%\n", m.Config.Label(), c.Category, c.Predicted,
						c.Measured.Mean, c.Measured.Low, c.Measured.High, 100*c.Error())
				}
			}
		}
	}
	_ = t.Flush()
}
