package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/bench"
	"surmise/bench/report"
	"surmise/drafter"
)

// gathered are trials of plain decoding and of two drafters, one of which has
// other bytes once.
func gathered(t *testing.T) *bench.Gather {
	t.Helper()
	g := new(bench.Gather)
	configs := []bench.Config{
		{Kind: "none"}, {Kind: "prompt-lookup", Width: "auto"}, {Kind: "mtp", Draft: "models/head", Width: "4"},
	}
	yes, no := true, false
	for n, category := range []string{"code", "code", "<script>alert(1)</script>", "chat"} {
		line := bench.Line{Item: fmt.Sprint(n)}
		for i, c := range configs {
			var tally drafter.Tally
			tally.Round(0, 0)
			for j := range 40 {
				if i > 0 {
					tally.Round(4, (j+n)%5)
				}
			}
			x := bench.Trial{
				Item: line.Item, Category: category, Tokens: 101, PromptSeconds: 0.5, DecodeSeconds: 10 / float64(1+i+n%2),
				Counts: bench.CountsOf(&tally), Finish: "length",
			}
			x.Counts.DraftSeconds, x.Counts.VerifySeconds = 0.2*float64(i), 1.5
			if i > 0 {
				x.Same = &yes
				x.Declines = map[string]int64{"no_match": 3}
			}
			if i == 2 && n == 3 {
				x.Same = &no
			}
			line.Results = append(line.Results, bench.Result{Config: c, Trial: x})
		}
		require.NoError(t, g.Add(line))
	}
	require.NoError(t, g.Add(bench.Line{Item: "99", Skipped: "too <long>"}))
	return g
}

func about() bench.About {
	return bench.About{
		Format: bench.TrialsFormat, Version: 1, Command: "bench", Program: "v1", Data: "questions",
		Target: bench.Checkpoint{Path: "/models/<big>.gguf", Hash: "0123456789abcdef"},
		Costs:  &bench.Costs{Curves: []bench.Curve{{Context: 64, Points: []bench.Point{{Rows: 1, Seconds: 0.01}, {Rows: 8, Seconds: 0.02}}}}},
	}
}

func TestTheTableShowsEveryWayOfDecodingAndWarnsOfOtherBytes(t *testing.T) {
	r := report.New(about(), gathered(t))
	var b bytes.Buffer
	require.NoError(t, r.Table(&b))
	for _, want := range []string{
		"plain", "prompt-lookup k=auto", "mtp(head) k=4", "3/4", "4/4", "1 questions skipped",
		"WARNING: 1 requests had other bytes", "B declined: no_match 12", "fastest: C",
	} {
		require.Contains(t, b.String(), want)
	}
	require.Equal(t, 1, r.Different())
}

func TestTheJSONIsReadBackToTheSameReport(t *testing.T) {
	r := report.New(about(), gathered(t))
	var b bytes.Buffer
	require.NoError(t, r.JSON(&b))
	back := new(report.Report)
	require.NoError(t, json.Unmarshal(b.Bytes(), back))
	require.Equal(t, r.Entries, back.Entries)
	require.Len(t, back.Definitions, len(bench.Definitions))
	require.InDelta(t, 3, r.Entries[1].Summary.MeanAcceptanceLength, 1e-9)
}

func TestTheOrderOfLinesChangesNothingButTheOrderOfCategories(t *testing.T) {
	a := report.New(about(), gathered(t))
	reversed := new(bench.Gather)
	var lines []bench.Line
	for i := range 4 {
		l := bench.Line{}
		for _, s := range gathered(t).Series {
			l.Results = append(l.Results, bench.Result{Config: s.Config, Trial: s.Trials[3-i]})
		}
		lines = append(lines, l)
	}
	for _, l := range lines {
		require.NoError(t, reversed.Add(l))
	}
	b := report.New(about(), reversed)
	for i := range a.Entries {
		x, y := a.Entries[i].Summary, b.Entries[i].Summary
		require.True(t, x.Counts.SameCounts(y.Counts))
		require.InDelta(t, x.TokensPerSecond, y.TokensPerSecond, 1e-9)
		require.Equal(t, x.LatencyP95, y.LatencyP95)
	}
}

func page(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.New(about(), gathered(t)).HTML(&b))
	return b.String()
}

func TestThePageLoadsNothingAndLetsNoNameBecomeMarkup(t *testing.T) {
	p := page(t)
	require.NotRegexp(t, regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?\s*(https?:)?//`), p)
	require.NotContains(t, p, "@import")
	require.NotContains(t, p, "url(")
	require.NotContains(t, p, "<script")
	require.NotContains(t, p, "<big>.gguf")
	require.Contains(t, p, `name="viewport"`)
	require.Contains(t, p, "1 requests had other bytes")
}

func TestThePageHasEveryPlotTableAndDefinition(t *testing.T) {
	p := page(t)
	for tag, want := range map[string]int{"figure": 7, "svg": 7, "table": 2} {
		require.Equal(t, want, len(regexp.MustCompile("<"+tag+"[ >]").FindAllString(p, -1)), tag)
		require.Equal(t, want, strings.Count(p, "</"+tag+">"), tag)
	}
	for _, d := range bench.Definitions {
		require.Contains(t, p, d.Name)
	}
}

func TestAReportOfPlainDecodingAloneIsWrittenToo(t *testing.T) {
	g := new(bench.Gather)
	require.NoError(t, g.Add(bench.Line{Results: []bench.Result{{Config: bench.Config{Kind: "none"}, Trial: bench.Trial{Item: "a", Tokens: 1}}}}))
	r := report.New(bench.About{}, g)
	require.NoError(t, r.HTML(io.Discard))
	require.NoError(t, r.Table(io.Discard))
	require.Nil(t, r.Best())
}
