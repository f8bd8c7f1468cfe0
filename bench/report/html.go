package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"surmise/bench"
)

//go:embed page.html
var page string

// pageTemplate is the page.
var pageTemplate = template.Must(template.New("page").Parse(page))

// pageData is what the page shows.
type pageData struct {
	Title, Verdict string
	Warning        string
	Facts          []fact
	Legend         []legend
	Columns        []string
	Rows           [][]string
	Figures        []pageFigure
	Categories     [][]string
	Declines       []fact
	Skipped        []fact
	Definitions    []fact
}

type fact struct{ Name, Value string }

type legend struct {
	Key, Name string
	Colour    template.CSS
}

type pageFigure struct {
	Title, Caption string
	SVG            template.HTML
}

// HTML writes the report as one page that loads nothing.
func (r *Report) HTML(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	d := &pageData{Title: r.title(), Verdict: r.verdict(), Facts: r.facts()}
	if n := r.Different(); n > 0 {
		d.Warning = fmt.Sprintf("%d requests had other bytes than plain decoding.", n)
	}
	for i, e := range r.Entries {
		c := r.paint(i)
		d.Legend = append(d.Legend, legend{e.Key, e.Config.String(), template.CSS(fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))})
	}
	for _, c := range columns {
		d.Columns = append(d.Columns, c.name)
	}
	for i := range r.Entries {
		var row []string
		for _, c := range columns {
			row = append(row, c.of(&r.Entries[i]))
		}
		d.Rows = append(d.Rows, row)
		if e := &r.Entries[i]; len(e.Summary.Declines) > 0 {
			d.Declines = append(d.Declines, fact{e.Key, counts(e.Summary.Declines)})
		}
	}
	for _, f := range figures {
		d.Figures = append(d.Figures, pageFigure{f.Title, f.Caption, template.HTML(f.SVG)}) // made here, of numbers and escaped names
	}
	d.Categories = r.categoryCells()
	for item, why := range r.Skipped {
		d.Skipped = append(d.Skipped, fact{item, why})
	}
	slices.SortFunc(d.Skipped, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
	for _, x := range bench.Definitions {
		d.Definitions = append(d.Definitions, fact{x.Name, x.Meaning})
	}
	if err := pageTemplate.Execute(w, d); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (r *Report) title() string {
	t := strings.TrimRight(r.About.Target.Path, "/")
	return "Drafters for " + t[strings.LastIndexAny(t, `/\`)+1:]
}

// verdict is the answer in a sentence.
func (r *Report) verdict() string {
	e := r.Best()
	if e == nil {
		return "Nothing was compared with plain decoding."
	}
	s := e.Summary.Speedup
	verb := "is"
	if r.About.Predicted {
		verb = "is predicted to be"
	}
	out := fmt.Sprintf("Of these, %s (%s) %s fastest: %.2f times plain decoding (95 %% interval %.2f to %.2f).", e.Config, e.Key, verb, s.Mean, s.Low, s.High)
	switch {
	case s.High < 1:
		out = fmt.Sprintf("No drafter pays here: the best, %s (%s), %s %.2f times as fast as plain decoding (95 %% interval %.2f to %.2f).", e.Config, e.Key, verb, s.Mean, s.Low, s.High)
	case s.Low < 1:
		out += " The interval includes 1: more questions would tell whether it pays."
	}
	return out
}

// facts describe the experiment.
func (r *Report) facts() []fact {
	a := &r.About
	out := []fact{
		{"Target", fmt.Sprintf("%s (%s, hash %.12s)", a.Target.Path, a.Target.Architecture, a.Target.Hash)},
	}
	for _, d := range a.Drafts {
		out = append(out, fact{"Draft model", fmt.Sprintf("%s (%s, hash %.12s)", d.Path, d.Architecture, d.Hash)})
	}
	chat := "chat template"
	if !a.Chat {
		chat = "no chat template"
	}
	out = append(out,
		fact{"Questions", fmt.Sprintf("%s, %s: %s", a.Data, chat, r.extent())},
		fact{"Machine", r.place()},
		fact{"Program", fmt.Sprintf("surmise %s, %s, %s", a.Program, a.Machine.Go, a.Started.Format("2006-01-02 15:04 MST"))},
		fact{"Command", strings.TrimSpace("surmise " + a.Command + " " + strings.Join(a.Flags, " "))},
	)
	return out
}

// categoryCells is the table by category, its head first; nil when there is one.
func (r *Report) categoryCells() [][]string {
	names, entries := r.names(), r.drafting()
	if len(names) < 2 || len(entries) == 0 {
		return nil
	}
	head := []string{"category", "requests"}
	for _, e := range entries {
		head = append(head, e.Key)
	}
	out := [][]string{head}
	for _, n := range names {
		requests := 0
		var cells []string
		for _, e := range entries {
			s := e.in(n)
			if s != nil {
				requests = max(requests, s.Requests)
			}
			cells = append(cells, cell(s))
		}
		out = append(out, append([]string{n, fmt.Sprint(requests)}, cells...))
	}
	return out
}
