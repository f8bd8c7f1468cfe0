package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"surmise/drafter"
	"surmise/engine"
)

// colours are those of drafted text by the kind that proposed it, as ANSI numbers;
// other kinds have the last.
var colours = []struct{ kind, colour string }{
	{drafter.Lookup, "2"}, {drafter.FullModel, "6"}, {drafter.MTP, "5"}, {drafter.DFlash, "4"}, {"", "3"},
}

// printer streams text to standard output.
type printer struct {
	w      io.Writer
	styles map[string]lipgloss.Style // of drafted text by kind; nil for none
	err    error                     // the first failure to write
	last   byte
	source string   // who proposed the token the text being printed belongs to
	seen   []string // all who did
}

// newPrinter shows drafted text in colour when asked, on a terminal.
func (a *app) newPrinter(showDrafts bool) *printer {
	p := &printer{w: a.stdout}
	if showDrafts && a.stdoutTTY && a.getenv("NO_COLOR") == "" {
		r := lipgloss.NewRenderer(a.stdout, termenv.WithUnsafe())
		p.styles = map[string]lipgloss.Style{}
		for _, c := range colours {
			p.styles[c.kind] = r.NewStyle().Foreground(lipgloss.Color(c.colour))
		}
	}
	return p
}

// style is that of a kind's drafted text.
func (p *printer) style(kind string) lipgloss.Style {
	if s, ok := p.styles[kind]; ok {
		return s
	}
	return p.styles[""]
}

// print takes an event of the stream.
func (p *printer) print(e engine.Event) {
	if e.Token != nil {
		p.source = e.Token.Source
		if p.source != "" && !slices.Contains(p.seen, p.source) {
			p.seen = append(p.seen, p.source)
		}
	}
	if e.Text == "" {
		return
	}
	p.last = e.Text[len(e.Text)-1]
	text := e.Text
	if p.styles != nil && p.source != "" {
		// Styles pad lines to blocks; each line is coloured by itself.
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			if l != "" {
				lines[i] = p.style(p.source).Render(l)
			}
		}
		text = strings.Join(lines, "\n")
	}
	if _, err := io.WriteString(p.w, text); err != nil && p.err == nil {
		p.err = fmt.Errorf("write the text: %w", err)
	}
}

// legend names the kinds in their colours; empty where there is no colour.
func (p *printer) legend() string {
	if p.styles == nil || len(p.seen) == 0 {
		return ""
	}
	var names []string
	for _, kind := range p.seen {
		names = append(names, p.style(kind).Render(kind))
	}
	return "drafted by " + strings.Join(names, ", ")
}

// end puts a line break behind a text that lacks one, on a terminal.
func (p *printer) end(tty bool) {
	if tty && p.last != 0 && p.last != '\n' {
		fmt.Fprintln(p.w)
	}
}

// timings are an answer's times and counts as JSON.
type timings struct {
	PromptN            int     `json:"prompt_n"`
	CacheN             int     `json:"cache_n"`
	PromptMS           float64 `json:"prompt_ms"`
	PredictedN         int     `json:"predicted_n"`
	PredictedMS        float64 `json:"predicted_ms"`
	PredictedPerSecond float64 `json:"predicted_per_second"`
	DraftN             int64   `json:"draft_n"`
	DraftNAccepted     int64   `json:"draft_n_accepted"`
	DraftRounds        int64   `json:"draft_rounds"`
	DraftKind          string  `json:"draft_kind,omitempty"`
	// Rounds are all that drew tokens; the times are those of their parts.
	Rounds   int64   `json:"rounds"`
	DraftMS  float64 `json:"draft_ms"`
	VerifyMS float64 `json:"verify_ms"`
	SampleMS float64 `json:"sample_ms"`
	// Drafts are the drafted rounds by the kind that proposed: the drafter's, or
	// the parts of a composed one. Declines are the others by reason.
	Drafts   []draftJSON      `json:"drafts,omitempty"`
	Declines map[string]int64 `json:"declines,omitempty"`
}

// draftJSON is how the proposals of a kind fared.
type draftJSON struct {
	Kind                 string  `json:"kind"`
	Drafts               int64   `json:"num_drafts"`
	Proposed             int64   `json:"num_draft_tokens"`
	Accepted             int64   `json:"num_accepted_tokens"`
	AcceptanceRate       float64 `json:"acceptance_rate"`
	MeanAcceptanceLength float64 `json:"mean_acceptance_length"`
	// PerPosition is accepted / drafts, Conditional accepted / tried.
	PerPosition []float64 `json:"acceptance_per_position"`
	Conditional []float64 `json:"conditional_acceptance_per_position"`
}

func draftOf(kind string, t *drafter.Tally) draftJSON {
	d := draftJSON{
		Kind: kind, Drafts: t.Drafts, Proposed: t.Proposed, Accepted: t.Accepted,
		AcceptanceRate: t.AcceptanceRate(), MeanAcceptanceLength: t.MeanAcceptanceLength(),
		PerPosition: []float64{}, Conditional: []float64{},
	}
	for i := 0; i < drafter.MaxWidth && t.Tried[i] > 0; i++ {
		d.PerPosition = append(d.PerPosition, float64(t.PerPosition[i])/float64(t.Drafts))
		d.Conditional = append(d.Conditional, float64(t.PerPosition[i])/float64(t.Tried[i]))
	}
	return d
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func timingsOf(t engine.Timings) timings {
	out := timings{
		PromptN: t.PromptN, CacheN: t.CachedN, PromptMS: milliseconds(t.Prompt),
		PredictedN: t.PredictedN, PredictedMS: milliseconds(t.Predicted), PredictedPerSecond: t.PredictedPerSecond(),
		DraftN: t.Draft.Proposed, DraftNAccepted: t.Draft.Accepted, DraftRounds: t.Draft.Drafts, DraftKind: t.DraftKind,
		Rounds:  t.Draft.Rounds,
		DraftMS: milliseconds(t.Draft.Draft), VerifyMS: milliseconds(t.Draft.Verify), SampleMS: milliseconds(t.Draft.Sample),
	}
	for i := range t.Sources {
		out.Drafts = append(out.Drafts, draftOf(t.Sources[i].Kind, &t.Sources[i].Tally))
	}
	for _, d := range t.Declines {
		if out.Declines == nil {
			out.Declines = map[string]int64{}
		}
		out.Declines[string(d.Reason)] = d.Rounds
	}
	return out
}

// summary is the line at the end of an answer.
func summary(t engine.Timings) string {
	s := fmt.Sprintf("%d tokens, %.1f tokens/s, %d rounds", t.PredictedN, t.PredictedPerSecond(), t.Draft.Rounds)
	for i := range t.Sources {
		d := &t.Sources[i]
		s += fmt.Sprintf(", %s: %d drafts, mean acceptance length %.2f, acceptance rate %.2f",
			d.Kind, d.Drafts, d.MeanAcceptanceLength(), d.AcceptanceRate())
	}
	for i, d := range t.Declines {
		if i == 0 {
			s += ", not drafted:"
		}
		s += fmt.Sprintf(" %d %s", d.Rounds, d.Reason)
	}
	return s + fmt.Sprintf(" (prompt: %d tokens in %.0f ms)", t.PromptN, milliseconds(t.Prompt))
}
