package engine_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/engine"
	"surmise/sampler"
	"surmise/tokenizer"
	"surmise/verify/verifytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endToken is the hash target's end token where a test gives it one.
const endToken = 23

// pieces are the hash target's tokens in the byte-level alphabet: letters, a
// two-byte and a four-byte character in single bytes, words, and an end token.
var pieces = []string{
	"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "Ġ", "Ċ",
	"Ã", "©", "ð", "Ł", "Ļ", "Ĥ", "ab", "cd", "Ġa", "cda", "k",
}

// words is a tokenizer for the hash target, with an end token if it has one.
func words(t verifytest.TB, o verifytest.Options) *tokenizer.Tokenizer {
	special := "<|nothing|>"
	if len(o.EOS) > 0 {
		special = "<|im_end|>"
	}
	vocab := map[string]int{}
	for i, p := range pieces {
		vocab[p] = i
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	data, err := json.Marshal(map[string]any{
		"version": "1.0",
		"added_tokens": []any{map[string]any{
			"id": endToken, "content": special, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		}},
		"pre_tokenizer": level, "decoder": level,
		"model": map[string]any{
			"type": "BPE", "vocab": vocab,
			"merges": [][]string{{"a", "b"}, {"c", "d"}, {"Ġ", "a"}, {"cd", "a"}},
		},
	})
	require.NoError(t, err)
	tok, err := tokenizer.FromFiles(data, nil, nil)
	require.NoError(t, err)
	return tok
}

func hashTarget(t verifytest.TB, o verifytest.Options) *verifytest.Target {
	m, err := verifytest.New(o)
	require.NoError(t, err)
	return m
}

func hashEngine(t verifytest.TB, o verifytest.Options, opts engine.Options) *engine.Engine {
	return engine.New(hashTarget(t, o), words(t, o), opts)
}

// params are parameters with a seed.
func params(temperature float64, seed uint64, maxNew int) sampler.Params {
	p := sampler.Default()
	p.Temperature, p.Seed, p.MaxNewTokens = temperature, &seed, maxNew
	return p
}

func prompt(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 1))
	p := make([]int32, n)
	for i := range p {
		p[i] = r.Int32N(20)
	}
	return p
}

// generate runs requests in one batch and returns all their answers, request by
// request.
func generate(t verifytest.TB, e *engine.Engine, requests ...engine.Request) [][]engine.Answer {
	t.Helper()
	var collected []*engine.Collector
	for i := range requests {
		c := engine.NewCollector(requests[i].Params.Candidates())
		requests[i].Emit = c.Add
		collected = append(collected, c)
	}
	require.NoError(t, e.Run(context.Background(), requests...))
	require.Zero(t, e.Live())
	require.Zero(t, e.Target().Cache().Stats().Sequences, "every sequence is closed")
	var answers [][]engine.Answer
	for _, c := range collected {
		answers = append(answers, c.Answers())
	}
	return answers
}

// same checks that two answers are the same to whoever asked: text, ids, log
// probabilities and the end.
func same(t verifytest.TB, want, got engine.Answer) {
	t.Helper()
	require.Equal(t, want.Text, got.Text)
	require.Equal(t, want.IDs(), got.IDs())
	for i := range want.Tokens {
		require.Equal(t, want.Tokens[i].Logprob, got.Tokens[i].Logprob)
		require.Equal(t, want.Tokens[i].Top, got.Tokens[i].Top)
	}
	require.Equal(t, want.Finish.Reason, got.Finish.Reason)
	require.Equal(t, want.Finish.Matched, got.Finish.Matched)
	require.Equal(t, want.Finish.Token, got.Finish.Token)
	require.NoError(t, got.Finish.Err)
}

// one is generate for a single request with one sample.
func one(t testing.TB, e *engine.Engine, r engine.Request) engine.Answer {
	t.Helper()
	return generate(t, e, r)[0][0]
}
