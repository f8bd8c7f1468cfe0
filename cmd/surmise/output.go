package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"surmise/engine"
)

// printer streams text to standard output.
type printer struct {
	w     io.Writer
	style *lipgloss.Style // of drafted text; nil for none
	err   error           // the first failure to write
	last  byte
	drawn bool // the text being printed belongs to a drafted token
}

// newPrinter shows drafted text in colour when asked, on a terminal.
func (a *app) newPrinter(showDrafts bool) *printer {
	p := &printer{w: a.stdout}
	if showDrafts && a.stdoutTTY && a.getenv("NO_COLOR") == "" {
		r := lipgloss.NewRenderer(a.stdout, termenv.WithUnsafe())
		s := r.NewStyle().Foreground(lipgloss.Color("2"))
		p.style = &s
	}
	return p
}

// print takes an event of the stream.
func (p *printer) print(e engine.Event) {
	if e.Token != nil {
		p.drawn = e.Token.Drafted
	}
	if e.Text == "" {
		return
	}
	p.last = e.Text[len(e.Text)-1]
	text := e.Text
	if p.style != nil && p.drawn {
		// Styles pad lines to blocks; each line is coloured by itself.
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			if l != "" {
				lines[i] = p.style.Render(l)
			}
		}
		text = strings.Join(lines, "\n")
	}
	if _, err := io.WriteString(p.w, text); err != nil && p.err == nil {
		p.err = fmt.Errorf("write the text: %w", err)
	}
}

// end puts a line break behind a text that lacks one, on a terminal.
func (p *printer) end(tty bool) {
	if tty && p.last != '\n' {
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
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func timingsOf(t engine.Timings) timings {
	return timings{
		PromptN: t.PromptN, CacheN: t.CachedN, PromptMS: milliseconds(t.Prompt),
		PredictedN: t.PredictedN, PredictedMS: milliseconds(t.Predicted), PredictedPerSecond: t.PredictedPerSecond(),
		DraftN: t.Draft.Proposed, DraftNAccepted: t.Draft.Accepted, DraftRounds: t.Draft.Drafts, DraftKind: t.DraftKind,
	}
}

// summary is the line at the end of an answer.
func summary(t engine.Timings) string {
	s := fmt.Sprintf("%d tokens, %.1f tokens/s, %d rounds", t.PredictedN, t.PredictedPerSecond(), t.Draft.Rounds)
	if t.Draft.Drafts > 0 {
		s += fmt.Sprintf(", %s: %d drafts, mean acceptance length %.2f, acceptance rate %.2f",
			t.DraftKind, t.Draft.Drafts, t.Draft.MeanAcceptanceLength(), t.Draft.AcceptanceRate())
	}
	return s + fmt.Sprintf(" (prompt: %d tokens in %.0f ms)", t.PromptN, milliseconds(t.Prompt))
}
