package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/engine/kinds"
	"surmise/sampler"
)

// notInRun are the fields of which run has no flag: it gives one answer at a
// time and shows text alone.
var notInRun = []string{"n", "best_of", "best_of_by", "beams", "length_penalty", "beam_groups", "diversity_penalty", "logprobs", "top_logprobs", "logprobs_mode"}

// valueOf is a valid value of a field other than its default, for a flag.
func valueOf(f sampler.Field) string {
	switch f.Kind {
	case sampler.KindInt, sampler.KindSeed:
		return map[bool]string{true: "3", false: "2"}[f.Range.Has(3)]
	case sampler.KindFloat:
		return map[bool]string{true: "0.5", false: "1.5"}[f.Range.Has(0.5)]
	case sampler.KindChoice:
		return f.Oneof[1]
	case sampler.KindJSON:
		return `{"type": "object"}`
	case sampler.KindTokens, sampler.KindBreakers:
		return "1,2"
	case sampler.KindBias:
		return "1=2"
	case sampler.KindGroups:
		return "de=2:1,2"
	}
	return "true"
}

// Given every field and every name it has, then the flag of that name sets the
// field in generate and run, and nothing else does.
func TestEveryNameOfEveryFieldIsAFlag(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	for _, command := range []string{"generate", "run"} {
		for _, f := range sampler.Fields() {
			if f.Where&sampler.InCommand == 0 || command == "run" && slices.Contains(notInRun, f.Name) {
				r := surmise(t, "", command, "--"+f.Flag+"=x")
				require.Contains(t, r.errors, "unknown flag: --"+f.Flag)
				continue
			}
			names := append(f.Flags(), strings.ReplaceAll(f.Flag, "-", "_"))
			for _, name := range names {
				a := &app{kinds: all}
				var got samplingFlags
				cmd := a.root()
				require.NoError(t, a.addSampling(cmd, &got, sampler.ProfileRun))
				before := string(f.Value(&got.params))
				require.NoError(t, cmd.ParseFlags([]string{"--" + name + "=" + valueOf(f)}), name)
				require.NotEqual(t, before, string(f.Value(&got.params)), name)
				// A command without a model gets as far as saying so.
				r := surmise(t, "", command, "-p", "x", "--json", "--"+name+"="+valueOf(f))
				if command == "run" {
					r = surmise(t, "", command, "--"+name+"="+valueOf(f))
				}
				require.NotContains(t, r.errors, "unknown flag", name)
			}
		}
	}
}

// Given a value out of range under any name, then the message names field and
// range and comes before the model is opened.
func TestBadSamplingValuesAreRefusedBeforeAModelIsOpened(t *testing.T) {
	bad := func(args ...string) string {
		r := surmise(t, "", append([]string{"generate", "-m", "no/such/model", "-p", "x"}, args...)...)
		require.Equal(t, statusUsage, r.status, "%v: %s", args, r.errors)
		require.NotContains(t, r.errors, "no/such")
		return r.errors
	}
	for _, f := range sampler.Fields() {
		if f.Kind != sampler.KindFloat && f.Kind != sampler.KindInt && f.Kind != sampler.KindSeed {
			continue
		}
		for _, name := range f.Flags() {
			for _, v := range []string{"nan", "inf", "-inf", "x", "", "1e999"} {
				message := bad("--" + name + "=" + v)
				require.Contains(t, message, f.Name)
				require.Contains(t, message, f.Valid)
			}
		}
	}
	for message, args := range map[string][]string{
		"json_schema: structured output is not built yet":          {"--json-schema", `{"type": "object"}`},
		"regex: structured output is not built yet":                {"--regex", "a+"},
		"ebnf: structured output is not built yet":                 {"--grammar", `root ::= "a"`},
		"at most one of json_schema, regex and ebnf":               {"--json-schema", "{}", "--regex", "a+"},
		"json_schema: [1] is not valid":                            {"--json-schema", "[1]"},
		"n: 3 is not valid: want at most beams, which is 2":        {"--beams", "2", "--samples", "3"},
		"best_of: 4 is not valid: want no best_of beside beams":    {"--beams", "2", "--best-of", "4"},
		"top_logprobs: 3 is not valid: want 0 without logprobs":    {"--top-logprobs", "3"},
		"--logprobs without --json":                                {"--logprobs"},
		`"5" is not a flag`:                                        {"--logprobs", "5"},
		"rank, vote or all":                                        {"--best-of-by", "luck"},
		"min_new_tokens: 9 is not valid: want 0 to max_new_tokens": {"--min-tokens", "9", "--max-tokens", "8"},
	} {
		require.Contains(t, bad(args...), message)
	}
	r := surmise(t, "hi\n", "run", "-m", "no/such/model", "--regex", "a")
	require.Equal(t, statusUsage, r.status)
	require.Contains(t, r.errors, "regex: structured output is not built yet")
}

// Given best_of without log probabilities asked for, then the samples are still
// ranked by them, and none are shown.
func TestBestOfRanksWithoutBeingAskedForLogProbabilities(t *testing.T) {
	dir := checkpointDir(t, false)
	args := []string{"generate", "-m", dir, "-p", "hello", "-n", "6", "--temp", "1.5", "--seed", "5", "--ignore-eos", "--json"}
	answer := func(more ...string) (x outputJSON) {
		r := surmise(t, "", append(slices.Clone(args), more...)...)
		require.Equal(t, statusOK, r.status, r.errors)
		require.NoError(t, json.Unmarshal([]byte(r.out), &x))
		return x
	}
	all := answer("--samples", "6", "--logprobs")
	best, want := -1e9, ""
	for _, s := range all.Samples {
		sum := 0.0
		for _, l := range s.Logprobs {
			sum += l.Logprob
		}
		if sum > best {
			best, want = sum, s.Text
		}
	}
	require.NotEqual(t, all.Samples[0].Text, want, "the seed must not make the first the best")
	got := answer("--best-of", "6")
	require.Equal(t, want, got.Text)
	require.Empty(t, got.Logprobs)
	require.Len(t, answer("--best-of", "6", "--best-of-by", "all").Samples, 6)
	require.Empty(t, answer("--best-of", "6", "--best-of-by", "vote").Samples)
}

func TestHelpListsEveryOtherName(t *testing.T) {
	help := surmise(t, "", "generate", "--help").out
	require.Contains(t, help, ", also --temperature")
	require.Contains(t, help, ", also --max-tokens, also --max-completion-tokens, also --n-predict")
	require.Contains(t, help, "grammar; not built yet")
	require.Contains(t, help, "draft checkpoint, also --model-draft")
	require.Contains(t, help, "or auto, also --draft, also --draft-max, also --spec-draft-n-max")
	require.Regexp(t, `--draft-noise .*default "shared"`, help)
	require.Contains(t, surmise(t, "", "bench", "--help").out, ", also --model-draft")
}

func TestExplainSamplingShowsTheStagesOfAProfile(t *testing.T) {
	explain := func(args ...string) string {
		r := surmise(t, "", append([]string{"explain", "sampling", "--seed", "1"}, args...)...)
		require.Equal(t, statusOK, r.status, r.errors)
		return r.out
	}
	require.Equal(t, "draw: greedy, the largest logit\n", explain())
	require.Equal(t, "top_k: 40\ntop_p: 0.9\ntemperature: 0.8\ndraw: Gumbel-max\nnoise: seed 1, sample 0\n", explain("--profile", "run", "--min-p", "0"))
	r := surmise(t, "", "explain", "sampling", "--profile", "chat")
	require.Equal(t, statusUsage, r.status)
	require.Contains(t, r.errors, `"chat"`)
}

// Given a stop text or expression of one's own, then the answer says which of
// them ended it.
func TestTheStopThatEndedAnAnswerIsNamed(t *testing.T) {
	dir := checkpointDir(t, false)
	run := func(more ...string) (x outputJSON) {
		r := surmise(t, "", append([]string{"generate", "-m", dir, "-p", "hello", "-n", "12", "--ignore-eos", "--json"}, more...)...)
		require.Equal(t, statusOK, r.status, r.errors)
		require.NoError(t, json.Unmarshal([]byte(r.out), &x))
		return x
	}
	plain := run()
	require.Equal(t, "length", plain.FinishReason)
	require.Empty(t, plain.MatchedStop)
	text := []rune(plain.Text)
	last := string(text[len(text)-2:])
	x := run("--stop", "never this", "--stop", last)
	require.Equal(t, "stop", x.FinishReason)
	require.Equal(t, last, x.MatchedStop)
	require.Equal(t, plain.Text[:strings.Index(plain.Text, last)], x.Text)
	x = run("--stop-regex", "(?s)...")
	require.Equal(t, "(?s)...", x.MatchedStop)
	require.Empty(t, x.Text)
}
