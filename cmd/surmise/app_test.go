package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chatTemplate marks the turns with characters the tiny model knows.
const chatTemplate = `{% for m in messages %}({{ m.role }}){{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}(assistant){% endif %}`

// checkpointDir is a Hugging Face directory: a tiny random llama with a
// tokenizer of 94 characters, and a chat template if wanted.
func checkpointDir(t *testing.T, template bool) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "model", "testdata", "llama", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	vocab := map[string]int{}
	for c := '!'; c <= '~'; c++ {
		vocab[string(c)] = len(vocab)
	}
	vocab["Ġ"] = len(vocab)
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	tok, err := json.Marshal(map[string]any{
		"version":       "1.0",
		"pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": [][]string{}},
		"added_tokens": []any{map[string]any{
			"id": len(vocab), "content": "<|im_end|>", "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		}},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), tok, 0o600))
	if template {
		cfg, err := json.Marshal(map[string]any{"chat_template": chatTemplate})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), cfg, 0o600))
	}
	return dir
}

// result is what a command did.
type result struct {
	status      int
	out, errors string
}

// surmise runs a command line with the given standard input.
func surmise(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return surmiseContext(t, context.Background(), stdin, args...)
}

func surmiseContext(t *testing.T, ctx context.Context, stdin string, args ...string) result {
	t.Helper()
	return runApp(ctx, stdin, nil, args...)
}

func runApp(ctx context.Context, stdin string, change func(*app), args ...string) result {
	var out, errs bytes.Buffer
	now := time.Unix(0, 0)
	a := &app{
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs,
		getenv: func(string) string { return "" },
		now: func() time.Time {
			now = now.Add(time.Millisecond)
			return now
		},
		random: func() uint64 { return 42 },
	}
	if change != nil {
		change(a)
	}
	status := a.execute(ctx, args)
	return result{status, out.String(), errs.String()}
}

func TestGeneratePrintsTextToStdoutAndTheRestToStderr(t *testing.T) {
	dir := checkpointDir(t, true)
	r := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "20", "--ignore-eos")
	require.Equal(t, statusOK, r.status, r.errors)
	require.NotEmpty(t, r.out)
	require.Contains(t, r.errors, "seed 42")
	require.Contains(t, r.errors, "20 tokens, ")
	require.Contains(t, r.errors, "tokens/s")
}

func TestGenerateJSONHasExactlyTheFieldsPromised(t *testing.T) {
	dir := checkpointDir(t, false)
	r := surmise(t, "", "generate", "--model", dir, "--prompt", "hello hello", "-n", "30", "--ignore-eos", "--seed", "7", "--prompt-lookup", "--json")
	require.Equal(t, statusOK, r.status, r.errors)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(r.out), &fields))
	require.ElementsMatch(t, []string{"text", "tokens", "finish_reason", "seed", "timings"}, keys(fields))
	var out outputJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Len(t, out.Tokens, 30)
	require.Equal(t, "length", out.FinishReason)
	require.EqualValues(t, 7, out.Seed)
	require.Equal(t, 30, out.Timings.PredictedN)
	require.Equal(t, 11, out.Timings.PromptN)
	require.LessOrEqual(t, out.Timings.DraftNAccepted, out.Timings.DraftN)
	var tm map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(fields["timings"], &tm))
	for _, k := range []string{"prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "predicted_per_second", "draft_n", "draft_n_accepted", "draft_rounds"} {
		require.Contains(t, tm, k)
	}
	require.Equal(t, out.Timings.DraftRounds > 0, tm["draft_kind"] != nil)
}

func keys(m map[string]json.RawMessage) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestDraftingChangesNoByteOfWhatIsPrinted(t *testing.T) {
	dir := checkpointDir(t, false)
	for _, temperature := range []string{"0", "0.8"} {
		for seed := range 5 {
			args := []string{"generate", "-m", dir, "-p", "abcabcabc", "-n", "60", "--ignore-eos", "--temp", temperature, "--seed", fmt.Sprint(seed)}
			plain := surmise(t, "", args...)
			require.Equal(t, statusOK, plain.status, plain.errors)
			for _, size := range []string{"1", "3", "8", "16", "auto"} {
				drafted := surmise(t, "", append(args, "--draft-kind", "prompt-lookup", "--draft-block-size", size)...)
				require.Equal(t, plain.out, drafted.out)
			}
		}
	}
}

func TestPromptsComeFromFlagsFilesAndStdin(t *testing.T) {
	dir := checkpointDir(t, false)
	file := filepath.Join(t.TempDir(), "prompt.txt")
	require.NoError(t, os.WriteFile(file, []byte("hello"), 0o600))
	want := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8")
	require.Equal(t, statusOK, want.status, want.errors)
	for _, r := range []result{
		surmise(t, "", "generate", "-m", dir, "--prompt-file", file, "-n", "8"),
		surmise(t, "hello", "generate", "-m", dir, "--prompt-file", "-", "-n", "8"),
		surmise(t, "", "generate", "-m", dir, "--prompt-ids", "71,68,75,75,78", "-n", "8"),
		surmise(t, "", "generate", "-m", dir, "-p", "hello", "--max_new_tokens=8"),
		surmise(t, "", "generate", "-m", dir, "-p", "hello", "--n-predict", "8"),
	} {
		require.Equal(t, statusOK, r.status, r.errors)
		require.Equal(t, want.out, r.out)
	}
}

func TestTheTemplateIsUsedUnlessRaw(t *testing.T) {
	dir := checkpointDir(t, true)
	templated := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "4", "--json")
	raw := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "4", "--raw", "--json")
	require.Contains(t, templated.out, `"prompt_n":23`) // (user)hello, the end token, (assistant)
	require.Contains(t, raw.out, `"prompt_n":5`)
}

func TestWithoutAModelTheFamilyInsideIsUsed(t *testing.T) {
	dir := checkpointDir(t, false)
	inside := func(a *app) {
		a.family = &family{
			files: os.DirFS(filepath.Dir(dir)), about: "a tiny model", target: filepath.Base(dir),
			drafters: map[string]string{"full-model": filepath.Base(dir)},
		}
	}
	want := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "20")
	for _, kind := range []string{"none", "full-model"} {
		r := runApp(t.Context(), "", inside, "generate", "-p", "hello", "-n", "20", "--draft-kind", kind, "--draft-block-size", "4")
		require.Equal(t, statusOK, r.status, r.errors)
		require.Contains(t, r.errors, "using a tiny model")
		require.Equal(t, want.out, r.out)
		require.Equal(t, kind == "full-model", strings.Contains(r.errors, "full-model: "), r.errors)
	}
	require.Equal(t, statusOK, runApp(t.Context(), "", inside, "inspect").status)
	require.Equal(t, "71,72\n", runApp(t.Context(), "", inside, "tokenize", "-p", "hi", "--ids").out)
}

func TestAnOptionalDrafterThatCannotBeOpenedIsAWarning(t *testing.T) {
	dir := checkpointDir(t, false)
	want := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8")
	r := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8", "--draft-model", "/nonexistent", "--draft-optional")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.errors, "warning: no drafter, decoding plainly")
	require.Equal(t, want.out, r.out)
}

func TestDraftedTextIsColouredOnATerminalOnly(t *testing.T) {
	dir := checkpointDir(t, false)
	args := []string{"generate", "-m", dir, "-p", "abcabcabc", "-n", "60", "--prompt-lookup", "--draft-block-size", "8", "--show-drafts"}
	plain := surmise(t, "", args...)
	require.NotContains(t, plain.out, "\x1b[")
	coloured := runApp(t.Context(), "", func(a *app) { a.stdoutTTY = true }, args...)
	require.Contains(t, coloured.out, "\x1b[")
	require.Equal(t, plain.out, regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(strings.TrimSuffix(coloured.out, "\n"), ""))
	never := runApp(t.Context(), "", func(a *app) {
		a.stdoutTTY = true
		a.getenv = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	}, args...)
	require.NotContains(t, never.out, "\x1b[")
}

func TestSeveralSamplesAreListed(t *testing.T) {
	dir := checkpointDir(t, false)
	r := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8", "--temp", "1", "--samples", "3", "--json")
	require.Equal(t, statusOK, r.status, r.errors)
	var out outputJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Len(t, out.Samples, 3)
	require.Equal(t, out.Text, out.Samples[0].Text)
	r = surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8", "--temp", "1", "--samples", "2")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.errors, "sample 1:")
}

// The end line and the timings are those of all samples, each of which has its own.
func TestTimingsOfSeveralSamplesAreThoseOfAll(t *testing.T) {
	dir := checkpointDir(t, false)
	args := []string{"generate", "-m", dir, "-p", "abcabcabc", "-n", "10", "--ignore-eos", "--temp", "1", "--samples", "3"}
	r := surmise(t, "", args...)
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.errors, "\n3 samples, 30 tokens, ")
	r = surmise(t, "", append(args, "--json")...)
	require.Equal(t, statusOK, r.status, r.errors)
	var out outputJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Equal(t, 30, out.Timings.PredictedN)
	require.InEpsilon(t, 30/out.Timings.PredictedMS*1000, out.Timings.PredictedPerSecond, 1e-3)
	rounds, drafted := int64(0), int64(0)
	for _, s := range out.Samples {
		require.Equal(t, 10, s.Timings.PredictedN)
		require.LessOrEqual(t, s.Timings.PredictedMS, out.Timings.PredictedMS)
		rounds += s.Timings.Rounds
		drafted += s.Timings.DraftN
	}
	require.Equal(t, rounds, out.Timings.Rounds)
	require.Equal(t, drafted, out.Timings.DraftN)

	// Samples drawn to choose from have been drawn too.
	r = surmise(t, "", "generate", "-m", dir, "-p", "abc", "-n", "10", "--ignore-eos", "--temp", "1", "--best-of", "4", "--json")
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Equal(t, 40, out.Timings.PredictedN)
	// Beams share their rounds.
	r = surmise(t, "", "generate", "-m", dir, "-p", "abc", "-n", "10", "--ignore-eos", "--beams", "3", "--samples", "2", "--json")
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Equal(t, 20, out.Timings.PredictedN)
	require.EqualValues(t, 10, out.Timings.Rounds)
}

func TestTheLargestNumberOfSamplesFindsRoomInTheCache(t *testing.T) {
	dir := checkpointDir(t, false)
	for _, args := range [][]string{{"--samples", "128", "--temp", "1"}, {"--beams", "64"}} {
		r := surmise(t, "", append([]string{"generate", "-m", dir, "-p", "hello", "-n", "3", "--ignore-eos", "--ctx", "70", "--json"}, args...)...)
		require.Equal(t, statusOK, r.status, r.errors)
	}
}

func TestBeamSearchAnswersWithItsBestHypotheses(t *testing.T) {
	dir := checkpointDir(t, false)
	r := surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8", "--beams", "3", "--samples", "2", "--json")
	require.Equal(t, statusOK, r.status, r.errors)
	var out outputJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Len(t, out.Samples, 2)
	r = surmise(t, "", "generate", "-m", dir, "-p", "hello", "-n", "8", "--beams", "3")
	require.Equal(t, statusOK, r.status, r.errors)
	require.NotEmpty(t, r.out)
}

func TestRunTalksUntilItsInputEnds(t *testing.T) {
	dir := checkpointDir(t, true)
	r := surmise(t, "hello\n\n/regenerate\nmore\n/clear\n/what\nagain", "run", "-m", dir, "-n", "6", "--ignore-eos", "--prompt-lookup")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Equal(t, 4, strings.Count(r.errors, "6 tokens, "), r.errors)
	require.Contains(t, r.errors, `unknown command "/what"`)
	require.Equal(t, statusOK, surmise(t, "/exit\nhello\n", "run", "-m", dir).status)
}

func TestAnsweringAgainGivesAnotherAnswerAndTheSameConversationTheSame(t *testing.T) {
	dir := checkpointDir(t, true)
	talk := func() []string {
		r := surmise(t, "hello\n/regenerate\n/regenerate\n", "run", "-m", dir, "-n", "8", "--ignore-eos", "--temp", "1", "--seed", "7")
		require.Equal(t, statusOK, r.status, r.errors)
		answers := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
		require.Len(t, answers, 3)
		return answers
	}
	first := talk()
	require.NotEqual(t, first[0], first[1])
	require.NotEqual(t, first[1], first[2])
	require.Equal(t, first, talk())
}

func TestAMessageThatIsNoTextIsRefusedAndTheChatGoesOn(t *testing.T) {
	r := surmise(t, "a\xff\nhello\n", "run", "-m", checkpointDir(t, true), "-n", "3", "--ignore-eos")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.errors, "the message is not valid UTF-8 at byte 1")
	require.Equal(t, 1, strings.Count(r.errors, "3 tokens, "))
}

func TestAConversationThatOutgrowsTheContextSaysWhatToDo(t *testing.T) {
	r := surmise(t, "hello\nhello\nhello\n/clear\nhello\n", "run", "-m", checkpointDir(t, true), "-n", "8", "--ignore-eos", "--ctx", "70")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.errors, "the context of 70 has room for at most 69")
	require.Contains(t, r.errors, "/clear forgets the conversation")
	require.Contains(t, r.errors[strings.Index(r.errors, "/clear forgets"):], "8 tokens, ", "the chat goes on")
	require.NotContains(t, r.out, "\n\n", "no line for an answer that was not given")
}

// fullDisk is a writer that has no room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatCannotBeWrittenFailsTheCommand(t *testing.T) {
	dir := checkpointDir(t, false)
	for _, args := range [][]string{
		{"generate", "-m", dir, "-p", "hello", "-n", "3"},
		{"generate", "-m", dir, "-p", "hello", "-n", "3", "--json"},
		{"generate", "-m", dir, "-p", "hello", "-n", "3", "--samples", "2"},
		{"inspect", "-m", dir},
		{"inspect", "-m", dir, "--json"},
		{"tokenize", "-m", dir, "-p", "hello"},
		{"tokenize", "-m", dir, "-p", "hello", "--ids"},
		{"tokenize", "-m", dir, "-p", "hello", "--json"},
		{"tokenize", "-m", dir, "--prompt-ids", "1,2"},
	} {
		r := runApp(context.Background(), "", func(a *app) { a.stdout = fullDisk{} }, args...)
		require.Equal(t, statusFailure, r.status, "%v: %s", args, r.errors)
		require.Contains(t, r.errors, "no space left")
	}
}

func TestRunWithoutAChatTemplateSaysWhatToUse(t *testing.T) {
	r := surmise(t, "hi\n", "run", "-m", checkpointDir(t, false))
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "no chat template to talk through: use surmise generate")
}

func TestAnInterruptedGenerationFailsAndSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := surmiseContext(t, ctx, "", "generate", "-m", checkpointDir(t, false), "-p", "hello")
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "interrupted")
}

func TestInspectShowsTheCheckpoint(t *testing.T) {
	dir := checkpointDir(t, true)
	for _, args := range [][]string{{"inspect", "-m", dir}, {"inspect", dir}} {
		r := surmise(t, "", args...)
		require.Equal(t, statusOK, r.status, r.errors)
		for _, want := range []string{"llama", "2 layers, hidden 32, 4/2 heads of 16", "f32", "byte-level BPE", "chat template", "present"} {
			require.Contains(t, r.out, want)
		}
	}
	r := surmise(t, "", "inspect", dir, "--json", "--tensors")
	var x inspection
	require.NoError(t, json.Unmarshal([]byte(r.out), &x))
	require.Equal(t, 96, x.Vocab)
	require.Equal(t, "full-model", x.ServesAs)
	require.NotEmpty(t, x.Tensors)
	require.Equal(t, chatTemplate+"\n", surmise(t, "", "inspect", dir, "--template").out)
}

func TestTokenizeShowsTokensAndText(t *testing.T) {
	dir := checkpointDir(t, false)
	require.Equal(t, "71,72\n", surmise(t, "", "tokenize", "-m", dir, "-p", "hi", "--ids").out)
	require.Equal(t, "hi\n", surmise(t, "", "tokenize", "-m", dir, "--prompt-ids", "71,72").out)
	require.Contains(t, surmise(t, "", "tokenize", "-m", dir, "-p", "hi").out, `71 "h"`)
	require.JSONEq(t, `{"text":"hi","count":2,"tokens":[{"id":71,"piece":"h"},{"id":72,"piece":"i"}]}`,
		surmise(t, "", "tokenize", "-m", dir, "-p", "hi", "--json").out)
	require.Contains(t, surmise(t, "", "tokenize", "-m", dir, "-p", "<|im_end|>", "--parse-special").out, "special")
}
