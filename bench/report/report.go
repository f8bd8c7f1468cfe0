package report

import (
	"encoding/json"
	"fmt"
	"io"

	"surmise/bench"
)

// Report is what an experiment came to.
type Report struct {
	About   bench.About `json:"about"`
	Entries []Entry     `json:"configs"`
	// Skipped are questions without an answer, with the reasons.
	Skipped map[string]string `json:"skipped,omitempty"`
	// Definitions are those of the numbers.
	Definitions map[string]string `json:"definitions"`
}

// Entry is a way of decoding.
type Entry struct {
	// Key is a letter that stands for the entry in plots and tables.
	Key        string        `json:"key"`
	Config     bench.Config  `json:"config"`
	Summary    bench.Summary `json:"summary"`
	Categories []Category    `json:"categories"`
}

// Category is an entry's summary over one category of questions.
type Category struct {
	Name    string        `json:"category"`
	Summary bench.Summary `json:"summary"`
}

// bootstrapSeed draws the resamples, so that a report is a function of its trials.
const bootstrapSeed = 1

// New computes a report. Only requests that a config has in common with plain
// decoding count for its speedup.
func New(about bench.About, g *bench.Gather) *Report {
	r := &Report{About: about, Skipped: g.Skipped, Definitions: map[string]string{}}
	for _, d := range bench.Definitions {
		r.Definitions[d.Name] = d.Meaning
	}
	for _, s := range g.Series {
		if len(s.Trials) == 0 {
			continue
		}
		n := len(r.Entries)
		var plain []bench.Trial
		if !s.Config.Plain() {
			plain = g.Of(s.Config.Baseline()).Trials
		}
		e := Entry{Key: key(n), Config: s.Config, Summary: bench.Summarize(s.Trials, plain, bootstrapSeed)}
		for _, c := range bench.Categories(s.Trials) {
			e.Categories = append(e.Categories, Category{c, bench.Summarize(bench.InCategory(s.Trials, c), plain, bootstrapSeed)})
		}
		r.Entries = append(r.Entries, e)
	}
	return r
}

// key is A, B, …, Z, A1, B1, ….
func key(n int) string {
	k := string(rune('A' + n%26))
	if n >= 26 {
		k += fmt.Sprint(n / 26)
	}
	return k
}

// Best is the entry with the greatest speedup; nil if nothing was compared.
func (r *Report) Best() *Entry {
	var best *Entry
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Summary.Speedup != nil && (best == nil || e.Summary.Speedup.Mean > best.Summary.Speedup.Mean) {
			best = e
		}
	}
	return best
}

// Different is the number of requests whose bytes were not those of plain
// decoding.
func (r *Report) Different() int {
	n := 0
	for _, e := range r.Entries {
		n += e.Summary.Compared - e.Summary.Same
	}
	return n
}

// JSON writes the report as one indented object.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
