package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/engine"
)

func inDemo(a *app) { a.family = demoFamily() }

func TestInspectMTPMeasuresBothHiddenStates(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.go")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("func add(a, b int) int {\n\treturn a + b\n}\n\n", 8)), 0o600))
	r := runApp(t.Context(), "", inDemo, "inspect", "--mtp", "--text", text, "--json")
	require.Equal(t, statusOK, r.status, r.errors)
	var out []headJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Len(t, out, 2)
	require.Equal(t, "normed", out[0].Hidden)
	require.Equal(t, "raw", out[1].Hidden)
	for _, x := range out {
		require.Equal(t, drafter.MTP, x.Kind)
		require.Positive(t, x.Drafts)
		require.LessOrEqual(t, x.Accepted, x.Proposed)
	}
	r = runApp(t.Context(), "", inDemo, "inspect", "--mtp")
	require.Equal(t, statusOK, r.status, "without a text the built-in prompts are continued: %s", r.errors)
	require.Contains(t, r.out, "normed")
}

func TestInspectSaysWhatIsNotRunYet(t *testing.T) {
	r := surmise(t, "", "inspect", filepath.Join("..", "..", "mtp", "testdata", "mimo"))
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.out, "layout mimo")
	x, err := json.Marshal(inspection{NotRun: "models of architecture deepseek_v3 are not run yet"})
	require.NoError(t, err)
	require.Contains(t, string(x), `"not_run"`)
}

func TestAutoIsTheDefaultAndReportsEachKind(t *testing.T) {
	dir := checkpointDir(t, false)
	r := surmise(t, "", "generate", "-m", dir, "-p", "abcabcabcabc", "-n", "40", "--ignore-eos", "--json")
	require.Equal(t, statusOK, r.status, r.errors)
	var out outputJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	rounds := out.Timings.DraftRounds + 1
	for _, n := range out.Timings.Declines {
		rounds += n
	}
	require.Equal(t, out.Timings.Rounds, rounds, "each round drafts or says why not")
	for _, d := range out.Timings.Drafts {
		require.Equal(t, drafter.Lookup, d.Kind)
	}
}

func TestDraftedTextHasAColourForEachKind(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range colours {
		var out strings.Builder
		a := &app{stdout: &out, stdoutTTY: true, getenv: func(string) string { return "" }}
		p := a.newPrinter(true)
		source := c.kind
		if source == "" {
			source = "another"
		}
		p.print(engine.Event{Token: &engine.Token{Drafted: true, Source: source}, Text: "word"})
		require.False(t, seen[out.String()], "the colour of %q is taken", c.kind)
		seen[out.String()] = true
		require.Contains(t, p.legend(), "drafted by")
	}
	require.Len(t, seen, len(colours))
}

func TestEveryKindOfTheFamilyWritesTheSameText(t *testing.T) {
	args := []string{"generate", "--raw", "-p", "func add(a, b int) int {\n\treturn", "-n", "40", "--temp", "0.8", "--seed", "3"}
	plain := runApp(t.Context(), "", inDemo, append(args, "--draft-kind", drafter.None)...)
	require.Equal(t, statusOK, plain.status, plain.errors)
	for kind := range demoFamily().drafters {
		for _, noise := range []string{"shared", "off"} {
			r := runApp(t.Context(), "", inDemo, append(args, "--draft-kind", kind, "--draft-block-size", "3", "--draft-noise", noise, "--draft-quantize", "q4_0")...)
			require.Equal(t, statusOK, r.status, r.errors)
			require.Equal(t, plain.out, r.out, "%s, noise %s", kind, noise)
		}
	}
}

// Options of networks mean nothing to prompt lookup: chosen by the program it goes
// without a word, asked for by name with a note.
func TestOptionsOfNetworksDoNotStopPromptLookup(t *testing.T) {
	dir := checkpointDir(t, false)
	for _, option := range [][]string{{"--draft-noise", "shared"}, {"--draft-noise", "off"}, {"--draft-quantize", "q8_0"}} {
		for _, kind := range []string{"--draft-kind=auto", "--prompt-lookup", "--draft-kind=none"} {
			args := append([]string{"generate", "-m", dir, "-p", "abcabcabc", "-n", "20", "--ignore-eos", kind}, option...)
			r := surmise(t, "", args...)
			require.Equal(t, statusOK, r.status, r.errors)
			require.NotContains(t, r.errors, "warning")
			if kind == "--prompt-lookup" {
				require.Contains(t, r.errors, "note: "+option[0]+" means nothing to draft kind prompt-lookup and is ignored\n")
			} else {
				require.NotContains(t, r.errors, "note:")
			}
			require.Equal(t, kind != "--draft-kind=none", strings.Contains(r.errors, "prompt-lookup"), "%s: it drafts", kind)
		}
	}
}

// explain says when a drafter engages and why not, in the words of its rules, and
// promises nothing that is not built.
func TestExplainSaysWhatWouldEngageAndWhyNot(t *testing.T) {
	for kind, reads := range map[string]string{
		drafter.Lookup: "tokens\n", drafter.MTP: "tokens and the target's final hidden state, after its last norm\n",
		drafter.DFlash: "tokens and the target's hidden states after layers ",
	} {
		args := []string{"explain", "--draft-kind", kind}
		r := runApp(t.Context(), "", inDemo, args...)
		require.Equal(t, statusOK, r.status, r.errors)
		require.Regexp(t, "\nreads +"+regexp.QuoteMeta(reads), r.out)
		_, works, _ := strings.Cut(r.out, "works with")
		works, _, _ = strings.Cut(works, "\n")
		require.Contains(t, works, "logit_bias")
		require.NotContains(t, works, "grammar", "the sampler refuses it")
		r = runApp(t.Context(), "", inDemo, append(args, "--json")...)
		require.Equal(t, statusOK, r.status, r.errors)
		var x engine.Explanation
		require.NoError(t, json.Unmarshal([]byte(r.out), &x))
		require.Greater(t, x.Trial.Rounds, int64(10))
		rounds := x.Trial.Drafts
		for reason, n := range x.Trial.Declined {
			rounds += n
			require.NotEqual(t, drafter.NothingLeft, reason, "that is the measurement's own end")
			require.Contains(t, ruleOf(x.Contract, reason), "(", "the rule's reason is told")
		}
		require.Equal(t, x.Trial.Rounds, rounds)
		require.Positive(t, x.TargetLayers)
	}
}
