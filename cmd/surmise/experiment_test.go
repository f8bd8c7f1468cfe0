package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/bench"
	"surmise/bench/pair"
	"surmise/bench/recording"
	"surmise/bench/report"
)

// questions are three questions of two categories, one of them of two turns.
func questions(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"question_id": 1, "category": "copy", "turns": ["abcabcabc"]}
{"question_id": 2, "category": "chat", "turns": ["hello", "again"]}
{"question_id": 3, "category": "copy", "turns": ["xyzxyzxyzxyz"]}
`), 0o600))
	return path
}

// reportOf runs a command and reads the report it prints.
func reportOf(t *testing.T, args ...string) *report.Report {
	t.Helper()
	r := surmise(t, "", append(args, "--json")...)
	require.Equal(t, statusOK, r.status, r.errors)
	out := new(report.Report)
	require.NoError(t, json.Unmarshal([]byte(r.out), out), r.out)
	return out
}

// sameCounts requires entries with the same configs and counts, over all
// requests and by category.
func sameCounts(t *testing.T, want, got []report.Entry) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Config, got[i].Config)
		require.True(t, want[i].Summary.Counts.SameCounts(got[i].Summary.Counts), "%s:\n%+v\n%+v", want[i].Config, want[i].Summary.Counts, got[i].Summary.Counts)
		require.Equal(t, want[i].Summary.Declines, got[i].Summary.Declines)
		require.Len(t, got[i].Categories, len(want[i].Categories))
		for j, c := range want[i].Categories {
			require.Equal(t, c.Name, got[i].Categories[j].Name)
			require.True(t, c.Summary.Counts.SameCounts(got[i].Categories[j].Summary.Counts))
		}
	}
}

func TestBenchComparesEveryDrafterWidthAndTemperatureWithPlainDecoding(t *testing.T) {
	dir := checkpointDir(t, true)
	page := filepath.Join(t.TempDir(), "report.html")
	r := reportOf(t, "bench", "-m", dir, "--data", questions(t), "-n", "24", "--ignore-eos", "--curve-time", "1s", "--html", page,
		"--draft-kind", "prompt-lookup", "--draft-kind", "full-model="+dir, "--draft-block-size", "2,auto", "--temperatures", "0,0.7")
	require.Len(t, r.Entries, 2*(1+2*2))
	for _, e := range r.Entries {
		require.Equal(t, 4, e.Summary.Requests, "three questions, one of them of two turns")
		require.Equal(t, 4*24, e.Summary.Tokens)
		if !e.Config.Plain() {
			require.Equal(t, 4, e.Summary.Same)
			require.NotNil(t, e.Summary.Speedup)
		}
		if e.Config.Kind == "full-model" && e.Config.Width == "2" {
			require.InDelta(t, 1, e.Summary.AcceptanceRate, 1e-9, "a drafter that is the target is always right")
		}
	}
	require.NotEmpty(t, r.About.Target.Hash)
	require.NotEmpty(t, r.About.Drafts)
	require.NotEmpty(t, r.About.Costs.Curves)
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(data), "<svg")

	text := surmise(t, "", "bench", "-m", dir, "--data", questions(t), "-n", "8", "--curve-time", "0")
	require.Equal(t, statusOK, text.status, text.errors)
	require.Contains(t, text.out, "prompt-lookup k=auto")
	require.Contains(t, text.out, "bytes equal")
}

func TestAnInterruptedBenchGoesOnFromItsJournal(t *testing.T) {
	dir, data := checkpointDir(t, false), questions(t)
	path := filepath.Join(t.TempDir(), "run.jsonl")
	args := []string{"bench", "-m", dir, "--data", data, "-n", "12", "--ignore-eos", "--curve-time", "0", "--draft-block-size", "3"}
	want := reportOf(t, args...)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := runApp(ctx, "", nil, append(args, "--out", path)...)
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "interrupted")
	require.Equal(t, want.Entries[1].Summary.Counts.Drafts, reportOf(t, append(args, "--out", path)...).Entries[1].Summary.Counts.Drafts)

	// Cut in the middle of the second question.
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	require.NoError(t, os.WriteFile(path, []byte(lines[0]+lines[1]+lines[2][:20]), 0o600))
	got := reportOf(t, append(args, "--out", path)...)
	sameCounts(t, want.Entries, got.Entries)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, lines[1], strings.SplitAfter(string(after), "\n")[1], "what was done is kept as it was")

	other := runApp(context.Background(), "", nil, append(args, "--out", path, "--kv", "f32", "--top-k", "5", "--stop", "x")...)
	require.Equal(t, statusFailure, other.status)
	require.Contains(t, other.errors, "another experiment: its kv format is f16, this one's f32; its stop is null, this one's [\"x\"]; its top_k is 0, this one's 5\n")
}

// models are a target and drafters of kinds; those that read hidden states are
// there only with the demo family.
type models struct {
	name, target string
	drafts       []string
	widths       string
}

func families(t *testing.T) []models {
	t.Helper()
	dir := checkpointDir(t, false)
	all := []models{{"tiny", dir, []string{"--draft-kind", "prompt-lookup,full-model,cascade", "--draft-model", dir}, "1,2,5"}}
	demo := os.Getenv("SURMISE_DEMO")
	if demo == "" {
		demo = filepath.Join("..", "..", "demo")
	}
	at := func(name string) string { return filepath.Join(demo, name) }
	if _, err := os.Stat(filepath.Join(at("target"), "model.safetensors")); err == nil {
		all = append(all, models{"demo", at("target"), []string{
			"--draft-kind", "prompt-lookup,full-model,mtp,dflash,cascade", "--draft-model", at("draft") + "," + at("mtp") + "," + at("dflash"),
		}, "3"})
	}
	return all
}

func TestGivenALocalRecordingWhenReplayedThenEveryKindAndFixedWidthCountsAsLive(t *testing.T) {
	for _, m := range families(t) {
		for _, temperature := range []string{"0", "0.8"} {
			t.Run(m.name+"/"+temperature, func(t *testing.T) {
				data, path := questions(t), filepath.Join(t.TempDir(), "rec.jsonl")
				common := []string{"-m", m.target, "--data", data, "-n", "14", "--limit", "2", "--ctx", "256", "--curve-time", "1s", "--temp", temperature}
				r := surmise(t, "", append(append([]string{"record", "--out", path}, common...), m.drafts...)...)
				require.Equal(t, statusOK, r.status, r.errors)
				ways := append([]string{"--draft-block-size", m.widths}, m.drafts...)
				live := reportOf(t, append(append([]string{"bench"}, common...), ways...)...)
				replayed := reportOf(t, append([]string{"replay", "--recording", path, "-m", m.target}, ways...)...)
				sameCounts(t, live.Entries, replayed.Entries)
				require.True(t, replayed.About.Predicted)
				for _, e := range replayed.Entries[1:] {
					require.NotNil(t, e.Summary.Speedup)
				}

				// In parts, and put together again.
				var parts []string
				for shard := range 2 {
					part := filepath.Join(t.TempDir(), "part.jsonl")
					args := append([]string{"replay", "--recording", path, "-m", m.target, "--out", part, "--shard", fmt.Sprintf("%d/2", shard)}, ways...)
					r := surmise(t, "", args...)
					require.Equal(t, statusOK, r.status, r.errors)
					parts = append(parts, part)
				}
				merged := reportOf(t, "replay", "--merge", strings.Join(parts, ","))
				counts := map[bench.Config]bench.Counts{}
				for _, e := range merged.Entries {
					counts[e.Config] = e.Summary.Counts
				}
				for _, e := range live.Entries {
					require.True(t, e.Summary.Counts.SameCounts(counts[e.Config]), e.Config.String())
				}
			})
		}
	}
}

// A sweep of three parts, one of which a way that learns is not divided over.
func TestGivenASweepWithoutAPartWhenMergedThenItIsRefusedAndThePartNamed(t *testing.T) {
	dir, tmp := checkpointDir(t, false), t.TempDir()
	path := filepath.Join(tmp, "rec.jsonl")
	r := surmise(t, "", "record", "--out", path, "-m", dir, "--data", questions(t), "-n", "8", "--curve-time", "0")
	require.Equal(t, statusOK, r.status, r.errors)
	part := func(i int) string { return filepath.Join(tmp, fmt.Sprintf("part-%d.jsonl", i)) }
	for i := range 3 {
		r := surmise(t, "", "replay", "--recording", path, "-m", dir, "--draft-kind", "prompt-lookup,cascade", "--draft-model", dir,
			"--draft-block-size", "2", "--out", part(i), "--shard", fmt.Sprintf("%d/3", i))
		require.Equal(t, statusOK, r.status, r.errors)
	}
	page := filepath.Join(tmp, "page.html")
	refused := func(want string, files ...string) {
		r := surmise(t, "", "replay", "--merge", strings.Join(files, ","), "--html", page)
		require.Equal(t, statusFailure, r.status)
		require.Contains(t, r.errors, want)
		require.Empty(t, r.out)
		require.NoFileExists(t, page)
	}
	refused("part 1/3 is missing: plain has 3 of 4 requests", part(0), part(2))
	refused("parts 1/3, 2/3 are missing", part(0))
	refused("twice", part(0), part(0))

	whole := reportOf(t, "replay", "--merge", strings.Join([]string{part(2), part(0), part(1)}, ","))
	require.Len(t, whole.Entries, 3)
	for _, e := range whole.Entries {
		require.Equal(t, 4, e.Summary.Requests)
	}

	// The way that is not divided is of part 2, which ends before it.
	data, err := os.ReadFile(part(2))
	require.NoError(t, err)
	cut := strings.Index(string(data), "\n{\"item\":\"1\"")
	require.Positive(t, cut)
	require.NoError(t, os.WriteFile(part(2), data[:cut+1], 0o600))
	refused("a part is not finished", part(0), part(1), part(2))
}

func TestWithoutAModelBenchMeasuresTheFamilyInside(t *testing.T) {
	dir := checkpointDir(t, false)
	inside := func(a *app) {
		a.family = &family{
			files: os.DirFS(filepath.Dir(dir)), about: "a tiny model", target: filepath.Base(dir),
			drafters: map[string]string{"full-model": filepath.Base(dir)},
		}
	}
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	for _, args := range [][]string{
		{"bench", "--data", questions(t), "-n", "8", "--curve-time", "0"},
		{"record", "--data", questions(t), "-n", "8", "--curve-time", "0", "--out", path},
		{"replay", "--recording", path, "--draft-kind", "prompt-lookup,full-model,cascade"},
	} {
		r := runApp(t.Context(), "", inside, args...)
		require.Equal(t, statusOK, r.status, r.errors)
		if args[0] != "record" {
			for _, want := range []string{"prompt-lookup", "full-model", "cascade"} {
				require.Contains(t, r.out, want)
			}
		}
	}
}

func TestTheFamilyInsideIsNamedOnlyWhenItIsOpened(t *testing.T) {
	dir, path := checkpointDir(t, false), filepath.Join(t.TempDir(), "rec.jsonl")
	r := surmise(t, "", "record", "--out", path, "-m", dir, "--data", questions(t), "-n", "4", "--curve-time", "0")
	require.Equal(t, statusOK, r.status, r.errors)
	for _, args := range [][]string{
		{"replay", "--recording", path},
		{"replay", "--recording", filepath.Join(t.TempDir(), "none")},
		{"generate"},
		{"generate", "-p", "x", "--draft-kind", "magic"},
		{"bench", "--draft-kind", "magic"},
		{"record", "--out", path, "--temperatures", "0,1"},
		{"pair", "--data", "/nonexistent"},
	} {
		require.NotContains(t, runApp(t.Context(), "", inDemo, args...).errors, "using the embedded demo model", "%q", args)
	}
	r = runApp(t.Context(), "", inDemo, "generate", "-p", "x", "-n", "1")
	require.Equal(t, 1, strings.Count(r.errors, "using the embedded demo model"), r.errors)
}

func TestLookupNeedsNothingButTheRecording(t *testing.T) {
	dir, path := checkpointDir(t, false), filepath.Join(t.TempDir(), "rec.jsonl")
	r := surmise(t, "", "record", "--out", path, "-m", dir, "--data", questions(t), "-n", "20", "--curve-time", "0")
	require.Equal(t, statusOK, r.status, r.errors)
	got := reportOf(t, "replay", "--recording", path, "--draft-block-size", "auto,1,2,4,8,64")
	require.Len(t, got.Entries, 7)
	r = surmise(t, "", "replay", "--recording", path, "--draft-model", dir)
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "say --model")
	r = surmise(t, "", "replay", "--recording", path, "-m", checkpointDir(t, true), "--quantize", "none")
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "is not the target of the recording")
}

func TestGivenHiddenStatesThatAreGoneWhenReplayedThenOnlyDraftersThatReadThemFailAndAtOnce(t *testing.T) {
	tmp := t.TempDir()
	path, journal := filepath.Join(tmp, "rec.jsonl"), filepath.Join(tmp, "out.jsonl")
	r := runApp(t.Context(), "", inDemo, "record", "--out", path, "--data", questions(t), "--limit", "1", "-n", "6", "--curve-time", "0")
	require.Equal(t, statusOK, r.status, r.errors)
	hidden := recording.HiddenPath(path)
	for _, damage := range []func() error{
		func() error { return os.Truncate(hidden, 10) },
		func() error { return os.Remove(hidden) },
	} {
		require.NoError(t, damage())
		replay := []string{"replay", "--recording", path, "--draft-block-size", "2", "--draft-kind"}
		r = runApp(t.Context(), "", inDemo, append(replay, "prompt-lookup,full-model")...)
		require.Equal(t, statusOK, r.status, r.errors)
		r = runApp(t.Context(), "", inDemo, append(replay, "prompt-lookup,mtp", "--out", journal)...)
		require.Equal(t, statusFailure, r.status)
		require.Contains(t, r.errors, "mtp(mtp) reads hidden states: ")
		require.Contains(t, r.errors, hidden)
		require.NoFileExists(t, journal)
	}
}

// echo is a server that answers like llama-server: with text of letters that
// the prompt began with, streamed.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Prompt    []int32 `json:"prompt"`
			MaxTokens int     `json:"max_tokens"`
		}
		if r.URL.Path != "/v1/completions" || json.NewDecoder(r.Body).Decode(&body) != nil || r.Header.Get("Authorization") != "Bearer sesame" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range body.MaxTokens {
			id := body.Prompt[i%len(body.Prompt)]
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"tokens\":[%d],\"finish_reason\":null}]}\n\n", id)
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAServerIsRecordedAndReplayed(t *testing.T) {
	dir, path, s := checkpointDir(t, false), filepath.Join(t.TempDir(), "rec.jsonl"), echo(t)
	secret := func(a *app) {
		a.getenv = func(name string) string {
			if name == "KEY" {
				return "sesame"
			}
			return ""
		}
	}
	args := []string{"record", "--out", path, "-m", dir, "--data", questions(t), "-n", "20", "--base-url", s.URL + "/v1", "--model-name", "big", "--api-key-env", "KEY"}
	for range 2 { // the second time there is nothing left to ask
		r := runApp(t.Context(), "", secret, args...)
		require.Equal(t, statusOK, r.status, r.errors)
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(written), "sesame")
	got := reportOf(t, "replay", "--recording", path, "--draft-block-size", "4")
	require.Equal(t, 4, got.Entries[1].Summary.Requests)
	require.Greater(t, got.Entries[1].Summary.MeanAcceptanceLength, 3.0, "an echo is a copy")

	r := runApp(t.Context(), "", nil, append(args[:len(args)-2:len(args)-2], "--attempts", "2", "--out", path+"2")...)
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "status 400")
}

func TestPairPredictsMeasuresAndAdvises(t *testing.T) {
	dir := checkpointDir(t, false)
	r := surmise(t, "", "pair", "-m", dir, "--data", questions(t), "-n", "16", "--ignore-eos", "--curve-time", "1s", "--probe-tokens", "40",
		"--draft-kind", "prompt-lookup,full-model", "--draft-model", dir, "--json")
	require.Equal(t, statusOK, r.status, r.errors)
	var reports []*pair.Report
	require.NoError(t, json.Unmarshal([]byte(r.out), &reports))
	require.Len(t, reports, 1)
	pairs := reports[0].Pairs
	require.Len(t, pairs, 2)
	require.InDelta(t, 1, pairs[1].Probe.Overlap, 1e-5, "the draft model is the target")
	require.Equal(t, 1.0, pairs[1].Probe.Agreement)
	for _, p := range pairs {
		require.Len(t, p.Predicted, len(pair.Widths))
		require.Len(t, p.Compared, 2)
		for _, m := range p.Compared {
			require.Equal(t, 4, m.Comparisons[0].Requests)
			if m.Config.Width != "auto" {
				require.InDelta(t, m.Comparisons[0].Lengths.Measured, m.Comparisons[0].Lengths.Predicted, 1e-9, "a fixed width is predicted exactly")
			}
		}
	}
	require.Contains(t, reports[0].Advice.Flags, "--draft-kind")

	// A drafter that does not fit is part of the answer.
	r = surmise(t, "", "pair", "-m", dir, "--data", questions(t), "-n", "4", "--curve-time", "1s", "--predict-only",
		"--draft-kind", "mtp="+filepath.Join("..", "..", "mtp", "testdata", "mimo"), "--draft-kind", "prompt-lookup")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.out, "mtp(mimo)")
	require.Contains(t, r.out, "does not fit")
	require.Contains(t, r.out, "hidden_size is 64")
}

func TestOutputThatCannotBeWrittenIsNoticedBeforeAnythingIsMeasured(t *testing.T) {
	dir, data, tmp := checkpointDir(t, false), questions(t), t.TempDir()
	path := filepath.Join(tmp, "rec.jsonl")
	r := surmise(t, "", "record", "--out", path, "-m", dir, "--data", data, "-n", "4", "--curve-time", "0")
	require.Equal(t, statusOK, r.status, r.errors)
	missing, folder := filepath.Join(tmp, "missing", "file"), filepath.Join(tmp, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	// Opening the target would say that it is used.
	inside := func(a *app) {
		a.family = &family{files: os.DirFS(filepath.Dir(dir)), about: "a tiny model", target: filepath.Base(dir)}
	}
	for _, args := range [][]string{
		{"bench", "--data", data, "--html"},
		{"bench", "--data", data, "--out"},
		{"record", "--data", data, "--out"},
		{"replay", "--recording", path, "--html"},
		{"replay", "--recording", path, "--out"},
		{"pair", "--data", data, "--draft-kind", "prompt-lookup", "--html"},
	} {
		for out, want := range map[string]string{missing: "no such file or directory", folder: "not a regular file"} {
			r := runApp(t.Context(), "", inside, append(args, out)...)
			require.Equal(t, result{status: statusFailure, errors: fmt.Sprintf("surmise: %s %s: %s\n", args[len(args)-1], out, want)}, r)
		}
	}
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Len(t, entries, 2, "trying leaves nothing behind")
}

func TestAPageThatCannotBeWrittenInTheEndCostsNoMeasurements(t *testing.T) {
	dir := checkpointDir(t, false)
	for _, args := range [][]string{
		{"bench", "-m", dir, "--data", questions(t), "-n", "4", "--curve-time", "0"},
		{
			"pair", "-m", dir, "--data", questions(t), "-n", "12", "--ignore-eos", "--draft-kind", "prompt-lookup",
			"--draft-block-size", "2", "--ctx", "256", "--curve-time", "50ms",
		},
	} {
		for _, output := range []string{"--json=false", "--json"} {
			folder := filepath.Join(t.TempDir(), "folder")
			require.NoError(t, os.Mkdir(folder, 0o700))
			page, now := filepath.Join(folder, "page.html"), time.Unix(0, 0)
			r := runApp(t.Context(), "", func(a *app) {
				a.now = func() time.Time { // the folder goes when the first time is taken
					_ = os.Remove(folder)
					now = now.Add(time.Millisecond)
					return now
				}
			}, append(args, output, "--html", page)...)
			require.Equal(t, statusFailure, r.status)
			require.Contains(t, r.errors, "write "+page)
			require.Contains(t, r.out, "prompt-lookup")
		}
	}
}

func TestAnExperimentInterruptedWhileCostsAreMeasuredSaysSo(t *testing.T) {
	dir, data := checkpointDir(t, false), questions(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// A context that leaves room for the rows to be measured.
	for _, args := range [][]string{{"bench"}, {"pair", "--draft-kind", "prompt-lookup"}} {
		r := surmiseContext(t, ctx, "", append(args, "-m", dir, "--data", data, "-n", "4", "--ctx", "256", "--curve-time", "20ms")...)
		require.Equal(t, statusFailure, r.status)
		require.Contains(t, r.errors, "surmise: interrupted")
		require.NotContains(t, r.errors, "context canceled")
	}
}

func TestBadExperimentsNameTheThingAndTheFix(t *testing.T) {
	dir := checkpointDir(t, false)
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("{}\n"), 0o600))
	for _, c := range []struct {
		args   []string
		status int
		want   []string
	}{
		{[]string{"bench", "-m", dir, "--draft-kind", "magic"}, 2, []string{`unknown draft kind "magic"`, "prompt-lookup"}},
		{[]string{"bench", "-m", dir, "--draft-kind", "full-model"}, 2, []string{"full-model needs a draft model"}},
		{[]string{"bench", "-m", dir, "--draft-kind", "prompt-lookup=" + dir}, 2, []string{"takes no draft model"}},
		{[]string{"bench", "-m", dir, "--draft-block-size", "4,0"}, 2, []string{"draft block size 0"}},
		{[]string{"bench", "-m", dir, "--temperatures", "0,-1"}, 2, []string{"--temperatures -1"}},
		{[]string{"bench", "-m", dir, "--temperatures", "1,1"}, 2, []string{"given twice"}},
		{[]string{"bench", "-m", dir, "--categories", "poems"}, 2, []string{`category "poems"`, "built-in mix has edit"}},
		{[]string{"bench", "-m", dir, "--data", "/nonexistent"}, 1, []string{"/nonexistent"}},
		{[]string{"bench", "-m", dir, "--clock", "sun"}, 2, []string{`--clock "sun"`, "wall or cpu"}},
		{[]string{"bench", "-m", dir, "--clock", "cpu"}, 2, []string{"--threads 1"}},
		{[]string{"bench", "-m", dir, "-n", "0"}, 2, []string{"max_new_tokens: 0 is not valid: want 2 or more"}},
		{[]string{"record", "-m", dir, "-n", "0", "--out", "x"}, 2, []string{"max_new_tokens: 0"}},
		{[]string{"pair", "-m", dir, "-n", "1"}, 2, []string{"max_new_tokens: 1"}},
		{[]string{"bench", "-m", dir, "--ctx", "16"}, 1, []string{"no question was answered"}},
		{[]string{"record", "-m", dir}, 2, []string{"--out FILE"}},
		{[]string{"record", "-m", dir, "--out", "x", "--base-url", "http://h/v1"}, 2, []string{"--model-name"}},
		{[]string{"record", "--out", "x", "--base-url", "http://h/v1", "--model-name", "m"}, 2, []string{"--model PATH"}},
		{[]string{"record", "-m", dir, "--out", "x", "--base-url", "host:8000/v1", "--model-name", "m"}, 2, []string{`--base-url "host:8000/v1"`, "http:// or https://"}},
		{[]string{"record", "-m", dir, "--out", "x", "--base-url", "10.0.0.1:8000", "--model-name", "m"}, 2, []string{`--base-url "10.0.0.1:8000"`}},
		{[]string{"record", "-m", dir, "--out", "x", "--base-url", "http://:8000/v1", "--model-name", "m"}, 2, []string{`--base-url "http://:8000/v1"`}},
		{[]string{"record", "-m", dir, "--out", "x", "--concurrency", "3"}, 2, []string{"--base-url"}},
		{[]string{"record", "-m", dir, "--out", "x", "--base-url", "http://h/v1", "--model-name", "m", "--hidden-layers", "1"}, 2, []string{"hidden states"}},
		{[]string{"record", "-m", dir, "--out", garbage}, 1, []string{garbage, "format"}},
		{[]string{"record", "-m", dir, "--out", filepath.Join(t.TempDir(), "x"), "--hidden-layers", "9", "--curve-time", "0"}, 1, []string{"hidden_layers"}},
		{[]string{"replay"}, 2, []string{"--recording FILE"}},
		{[]string{"replay", "--recording", garbage}, 1, []string{"format"}},
		{[]string{"replay", "--recording", "x", "--shard", "4/4"}, 2, []string{`--shard "4/4"`, "0/4"}},
		{[]string{"replay", "--merge", garbage}, 1, []string{"format"}},
		{[]string{"replay", "--merge", garbage, "--recording", "x"}, 2, []string{"leave out"}},
		{[]string{"pair", "-m", dir, "--probe-tokens", "0"}, 2, []string{"--probe-tokens 0"}},
		{[]string{"pair", "-m", dir, "--curve-time", "0"}, 2, []string{"--curve-time"}},
		{[]string{"pair", "-m", dir, "--html", "x", "--predict-only"}, 2, []string{"--html"}},
	} {
		r := surmise(t, "", c.args...)
		require.Equal(t, c.status, r.status, "%q: %s", c.args, r.errors)
		for _, want := range c.want {
			require.Contains(t, r.errors, want, "%q", c.args)
		}
	}
}
