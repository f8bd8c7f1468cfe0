package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"surmise/bench"
)

// column is a column of the table of ways of decoding.
type column struct {
	name string
	of   func(*Entry) string
}

// columns are those of the table, in text and in HTML.
var columns = []column{
	{"", func(e *Entry) string { return e.Key }},
	{"decoding", func(e *Entry) string { return e.Config.String() }},
	{"tokens/s", func(e *Entry) string { return timed(e, "%.1f", e.Summary.TokensPerSecond) }},
	{"speedup", func(e *Entry) string { return interval(e.Summary.Speedup) }},
	{"accept len", func(e *Entry) string { return orDash(e, "%.2f", e.Summary.MeanAcceptanceLength) }},
	{"accept rate", func(e *Entry) string { return orDash(e, "%.2f", e.Summary.AcceptanceRate) }},
	{"drafts/rounds", func(e *Entry) string {
		if e.Config.Plain() {
			return "–"
		}
		return fmt.Sprintf("%d/%d", e.Summary.Counts.Drafts, e.Summary.Counts.Rounds)
	}},
	{"p50/p95 s", func(e *Entry) string { return timed(e, "%.2f/%.2f", e.Summary.LatencyP50, e.Summary.LatencyP95) }},
	{"draft/verify/sample", func(e *Entry) string {
		s := e.Summary.Shares
		return timed(e, "%.0f/%.0f/%.0f %%", 100*s.Draft, 100*s.Verify, 100*s.Sample)
	}},
	{"bytes equal", func(e *Entry) string {
		if e.Summary.Compared == 0 {
			return "–"
		}
		return fmt.Sprintf("%d/%d", e.Summary.Same, e.Summary.Compared)
	}},
}

// timed is a cell of times, a dash where they are not known.
func timed(e *Entry, format string, v ...any) string {
	if e.Summary.TokensPerSecond == 0 {
		return "–"
	}
	return fmt.Sprintf(format, v...)
}

func interval(i *bench.Interval) string {
	if i == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", i.Mean, i.Low, i.High)
}

func orDash(e *Entry, format string, v float64) string {
	if e.Config.Plain() || e.Summary.Counts.Drafts == 0 {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// Table writes the report for a terminal.
func (r *Report) Table(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s on %s\n", r.About.Target.Path, r.place())
	fmt.Fprintf(&b, "%s: %s\n\n", r.About.Data, r.extent())
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	fmt.Fprintln(t, strings.Join(names, "\t"))
	for i := range r.Entries {
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.of(&r.Entries[i]))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush()
	r.categoryTable(&b)
	r.positionTable(&b)
	r.notes(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// place is the machine in a few words.
func (r *Report) place() string {
	m := r.About.Machine
	s := fmt.Sprintf("%s/%s", m.OS, m.Arch)
	for _, part := range []string{m.CPU, m.Device} {
		if part != "" {
			s += ", " + part
		}
	}
	return s
}

// extent is how much was done.
func (r *Report) extent() string {
	requests, tokens := 0, 0
	for _, e := range r.Entries {
		requests = max(requests, e.Summary.Requests)
		tokens = max(tokens, e.Summary.Tokens)
	}
	s := fmt.Sprintf("%d requests, %d tokens", requests, tokens)
	if n := len(r.Skipped); n > 0 {
		s += fmt.Sprintf(", %d questions skipped", n)
	}
	switch {
	case r.About.Predicted && r.About.Costs == nil:
		s += "; no times: forwards were not measured"
	case r.About.Predicted:
		s += "; times are predictions from measured forwards"
	}
	return s
}

// names are all categories of the report.
func (r *Report) names() []string {
	var out []string
	for _, e := range r.Entries {
		for _, c := range e.Categories {
			if !slices.Contains(out, c.Name) {
				out = append(out, c.Name)
			}
		}
	}
	return out
}

// in is the summary of a category of an entry; nil if it has none.
func (e *Entry) in(category string) *bench.Summary {
	for i := range e.Categories {
		if e.Categories[i].Name == category {
			return &e.Categories[i].Summary
		}
	}
	return nil
}

// drafting are the entries with a drafter.
func (r *Report) drafting() []*Entry {
	var out []*Entry
	for i := range r.Entries {
		if !r.Entries[i].Config.Plain() {
			out = append(out, &r.Entries[i])
		}
	}
	return out
}

func (r *Report) categoryTable(b *bytes.Buffer) {
	entries, names := r.drafting(), r.names()
	if len(entries) == 0 || len(names) < 2 {
		return
	}
	fmt.Fprintf(b, "\nby category: mean acceptance length, speedup\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "category")
	for _, e := range entries {
		fmt.Fprintf(t, "\t%s", e.Key)
	}
	fmt.Fprintln(t)
	for _, c := range names {
		fmt.Fprint(t, c)
		for _, e := range entries {
			fmt.Fprintf(t, "\t%s", cell(e.in(c)))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
}

// cell is a category's summary in a few characters.
func cell(s *bench.Summary) string {
	if s == nil {
		return "–"
	}
	out := "–"
	if s.Counts.Drafts > 0 {
		out = fmt.Sprintf("%.2f", s.MeanAcceptanceLength)
	}
	if s.Speedup != nil {
		out += fmt.Sprintf(", %.2f×", s.Speedup.Mean)
	}
	return out
}

// shownPositions is how many positions are shown; JSON has all.
const shownPositions = 8

func (r *Report) positionTable(b *bytes.Buffer) {
	entries := r.drafting()
	if len(entries) == 0 {
		return
	}
	fmt.Fprintf(b, "\nacceptance at position 1, 2, …: of all drafts | of those that came so far\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(t, "%s\t%s\t| %s\n", e.Key, rates(e.Summary.Unconditional), rates(e.Summary.Conditional))
	}
	_ = t.Flush()
}

func rates(v []float64) string {
	var out []string
	for i, x := range v {
		if i == shownPositions {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprintf("%.2f", x))
	}
	return strings.Join(out, " ")
}

func (r *Report) notes(b *bytes.Buffer) {
	if e := r.Best(); e != nil {
		fmt.Fprintf(b, "\nfastest: %s %s, speedup %s\n", e.Key, e.Config, interval(e.Summary.Speedup))
	}
	if n := r.Different(); n > 0 {
		fmt.Fprintf(b, "\nWARNING: %d requests had other bytes than plain decoding\n", n)
	}
	for _, e := range r.drafting() {
		if len(e.Summary.Declines) > 0 {
			fmt.Fprintf(b, "%s declined: %s\n", e.Key, counts(e.Summary.Declines))
		}
	}
}

// counts are counts by name, greatest first.
func counts(m map[string]int64) string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return int(m[b] - m[a])
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%s %d", n, m[n]))
	}
	return strings.Join(out, ", ")
}
