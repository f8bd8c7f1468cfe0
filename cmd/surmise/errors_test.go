package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every way to say something wrong: the message names the thing and the fix,
// nothing is printed to standard output, and the status tells usage (2) from
// failure (1).
func TestBadInputNamesTheThingAndTheFix(t *testing.T) {
	dir := checkpointDir(t, false)
	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "model.gguf"), []byte("GGUFxx"), 0o600))
	binary, large := filepath.Join(t.TempDir(), "binary"), filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(binary, []byte("ab\xfe"), 0o600))
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, maxText+1)) // takes no room on disk
	empty := t.TempDir()
	two := t.TempDir()
	for _, n := range []string{"a.gguf", "b.gguf"} {
		require.NoError(t, os.WriteFile(filepath.Join(two, n), []byte("GGUF"), 0o600))
	}
	gen := func(args ...string) []string { return append([]string{"generate", "-m", dir, "-p", "hello"}, args...) }
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   []string
	}{
		{"unknown command", []string{"generat"}, 2, []string{`unknown command "generat"`}},
		{"unknown flag", gen("--temprature", "1"), 2, []string{"unknown flag: --temprature"}},
		{"argument without flag", gen("there"), 2, []string{`argument "there"`, "--prompt"}},
		{"no model", []string{"generate", "-p", "x"}, 2, []string{"no model given", "--model PATH", "GGUF"}},
		{"inspect nothing", []string{"inspect"}, 2, []string{"no model given"}},
		{"draft noise", gen("--draft-model", dir, "--draft-noise", "loud"), 2, []string{`draft noise "loud"`, "shared or off"}},
		{"draft noise of no drafter", gen("--draft-kind", "none", "--draft-noise", "loud"), 2, []string{`draft noise "loud"`}},
		{"draft noise of an optional drafter", gen("--draft-optional", "--draft-noise", ""), 2, []string{`draft noise ""`}},
		{"draft quantize", gen("--draft-optional", "--draft-quantize", "q5"), 2, []string{"--draft-quantize", `"q5"`, "q8_0"}},
		{"draft quantize before anything is opened", []string{"explain", "-m", "/nonexistent", "--draft-quantize", "q5"}, 2, []string{`"q5"`}},
		{"draft noise of an experiment", []string{"bench", "-m", "/nonexistent", "--draft-noise", "loud"}, 2, []string{`draft noise "loud"`}},
		{"no draft kind", gen("--draft-kind", ""), 2, []string{"--draft-kind is empty", "leave it out"}},
		{"no draft model", gen("--draft-model", ""), 2, []string{"--draft-model is empty"}},
		{"no block size", gen("--draft-max", ""), 2, []string{"--draft-block-size is empty"}},
		{"explain nothing", []string{"explain", "-m", dir, "--draft-kind", "none"}, 2, []string{"--draft-kind none", "want another kind"}},
		{"explain an optional drafter that cannot be opened", []string{"explain", "-m", dir, "--draft-model", "/nonexistent", "--draft-optional"}, 1, []string{"draft model", "/nonexistent"}},
		{"argument of explain", []string{"explain", "extra"}, 2, []string{`argument "extra"`, "surmise explain takes flags only, or the command sampling"}},
		{"argument of run", []string{"run", "hello"}, 2, []string{`argument "hello"`, "takes flags only"}},
		{"drafts shown of what does not stream", gen("--show-drafts", "--json"), 2, []string{"--show-drafts", "--json"}},
		{"drafts shown of samples", gen("--show-drafts", "--samples", "2"), 2, []string{"--show-drafts", "samples"}},
		{"drafts shown of beams", gen("--show-drafts", "--beams", "2"), 2, []string{"--show-drafts", "beams"}},
		{"inspect a text without heads", []string{"inspect", dir, "--text", "/nope"}, 2, []string{"--text without --mtp"}},
		{"inspect a head without measuring it", []string{"inspect", dir, "--draft-model", "/nope"}, 2, []string{"--draft-model without --mtp"}},
		{"inspect tensors while measuring heads", []string{"inspect", dir, "--mtp", "--tensors"}, 2, []string{"--tensors together with --mtp"}},
		{"no prompt", []string{"generate", "-m", dir}, 2, []string{"no prompt", "--prompt-file"}},
		{"two prompts", gen("--prompt-ids", "1"), 2, []string{"more than one of"}},
		{"prompt ids", []string{"generate", "-m", dir, "--prompt-ids", "1,x"}, 2, []string{"--prompt-ids", `"x"`, "1,2,3"}},
		{"no prompt ids", []string{"generate", "-m", dir, "--prompt-ids", " "}, 2, []string{"--prompt-ids", "1,2,3"}},
		{"prompt id out of range", []string{"generate", "-m", dir, "--prompt-ids", "96"}, 1, []string{"token 96", "0..95"}},
		{"prompt file absent", []string{"generate", "-m", dir, "--prompt-file", "/nonexistent"}, 1, []string{"--prompt-file", "/nonexistent"}},
		{"prompt too long", []string{"generate", "-m", dir, "--ctx", "16", "-p", strings.Repeat("a", 16)}, 1, []string{"16 tokens", "context of 16", "15"}},
		{"max new tokens", gen("-n", "-2"), 2, []string{"max_new_tokens", `"-2"`, "≥ 0"}},
		{"temperature", gen("--temp", "nan"), 2, []string{"temperature", "nan", "finite"}},
		{"top k", gen("--top-k", "-2"), 2, []string{"top_k", `"-2"`, "-1, 0 or ≥ 1"}},
		{"top p", gen("--top-p", "1.5"), 2, []string{"top_p", `"1.5"`, "(0, 1]"}},
		{"min p", gen("--min-p", "-1"), 2, []string{"min_p", `"-1"`, "[0, 1]"}},
		{"seed", gen("--seed", "x"), 2, []string{"seed", "x", "2⁶⁴−1"}},
		{"stop", gen("--stop", ""), 2, []string{"stop"}},
		{"min over max", gen("--min-new-tokens", "9", "-n", "3"), 2, []string{"min_new_tokens", "9"}},
		{"threads", gen("--threads", "-1"), 2, []string{"threads -1", "0 for all cores"}},
		{"threads not a number", gen("-t", "two"), 2, []string{`--threads "two": want a whole number`}},
		{"list of numbers", []string{"bench", "--temperatures", "0,abc"}, 2, []string{`--temperatures "0,abc": want numbers parted by commas`}},
		{"list of whole numbers", []string{"record", "--hidden-layers", "1,x"}, 2, []string{`--hidden-layers "1,x": want whole numbers`}},
		{"list of texts", []string{"bench", "--categories", `a"b`}, 2, []string{`--categories "a\"b": want texts`}},
		{"time without unit", []string{"bench", "--curve-time", "5"}, 2, []string{`--curve-time "5": want a time with its unit`}},
		{"negative seed", []string{"bench", "--shuffle-seed", "-1"}, 2, []string{`--shuffle-seed "-1": want a whole number from 0`}},
		{"switch", gen("--json=maybe"), 2, []string{`--json "maybe": want true or false`}},
		{"ctx", gen("--ctx", "-5"), 2, []string{"context -5"}},
		{"ctx above the trained one", gen("--ctx", "100000"), 1, []string{"100000"}},
		{"kv", gen("--kv", "f8"), 2, []string{`kv "f8"`, "f16 or f32"}},
		{"quantize", gen("--quantize", "q5"), 2, []string{`quantize "q5"`, "q8_0"}},
		{"draft kind", gen("--draft-kind", "eagle"), 2, []string{`unknown draft kind "eagle"`, "none", "prompt-lookup"}},
		{"draft kinds at odds", gen("--draft-kind", "none", "--prompt-lookup"), 2, []string{"--prompt-lookup", "--draft-kind none"}},
		{"lookup with a draft model", gen("--prompt-lookup", "--draft-model", dir), 2, []string{"prompt-lookup takes no draft model", dir}},
		{"none with a draft model", gen("--draft-kind", "none", "--model-draft", dir), 2, []string{"none", dir}},
		{"kind without its model", gen("--draft-kind", "dflash"), 2, []string{"dflash needs a draft model"}},
		{"draft model absent", gen("--draft-model", "/nonexistent"), 1, []string{"draft model", "/nonexistent"}},
		{"block size zero", gen("--draft-block-size", "0"), 2, []string{"draft block size 0", "none"}},
		{"block size", gen("--draft-max", "65"), 2, []string{`draft block size "65"`, "1 to 64, or auto"}},
		{"model absent", []string{"generate", "-m", "/nonexistent", "-p", "x"}, 1, []string{"/nonexistent"}},
		{"model broken", []string{"generate", "-m", broken, "-p", "x"}, 1, []string{"model.gguf"}},
		{"folder without a model", []string{"generate", "-m", empty, "-p", "x"}, 1, []string{empty}},
		{"folder with two models", []string{"generate", "-m", two, "-p", "x"}, 1, []string{two}},
		{"raw system message", gen("--raw", "--system", "x"), 2, []string{"--system", "--raw"}},
		{"system message without template", gen("--system", "x"), 1, []string{"--system", "no chat template"}},
		{"inspect twice", []string{"inspect", dir, "-m", dir}, 2, []string{"two checkpoints"}},
		{"inspect a template that is not there", []string{"inspect", dir, "--template"}, 1, []string{"no chat template"}},
		{"tokenize nothing", []string{"tokenize", "-m", dir}, 2, []string{"no prompt"}},
		{"tokenize two ways", []string{"tokenize", "-m", dir, "-p", "x", "--ids", "--json"}, 2, []string{"--json", "--ids"}},
		{"tokenize unknown ids", []string{"tokenize", "-m", dir, "--prompt-ids", "500"}, 1, []string{"500", "0..95"}},
		{"tokenize what cannot be read", []string{"tokenize", "-m", dir, "-p", "a\xff"}, 2, []string{"--prompt", "not valid UTF-8", "byte 1"}},
		{"prompt that is no text", gen("-p", "a\xff"), 2, []string{"--prompt", "not valid UTF-8", "byte 1"}},
		{"system message that is no text", gen("--system", "\xff"), 2, []string{"--system", "not valid UTF-8"}},
		{"prompt file that is no text", []string{"generate", "-m", dir, "--prompt-file", binary}, 1, []string{"--prompt-file", binary, "not valid UTF-8", "byte 2"}},
		{"prompt file too large", []string{"generate", "-m", dir, "--prompt-file", large}, 1, []string{"--prompt-file", large, "67108864 bytes"}},
		{"prompt ids with a hole", []string{"generate", "-m", dir, "--prompt-ids", "1,,2"}, 2, []string{"--prompt-ids", `""`, "1,2,3"}},
		{"more threads than any machine has", gen("-t", "100000000"), 2, []string{"threads 100000000", "1 to 1024"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := surmise(t, "", c.args...)
			require.Equal(t, c.status, r.status, r.errors)
			require.Empty(t, r.out, "nothing half-written")
			first, _, _ := strings.Cut(r.errors, "\n")
			for !strings.HasPrefix(first, "surmise: ") {
				_, rest, found := strings.Cut(r.errors, "\n")
				require.True(t, found, r.errors)
				r.errors = rest
				first, _, _ = strings.Cut(rest, "\n")
			}
			for _, w := range c.want {
				require.Contains(t, first, w)
			}
			require.NotContains(t, first, "strconv")
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"generate", "--help"}, {"run", "--help"}, {"inspect", "--help"}, {"tokenize", "--help"}} {
		r := surmise(t, "", args...)
		require.Equal(t, statusOK, r.status)
		require.NotEmpty(t, r.out)
	}
}
