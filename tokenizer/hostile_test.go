package tokenizer

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile is a small tokenizer.json with parts to break.
func hostile(changes map[string]string) []byte {
	parts := map[string]string{
		"type": `"BPE"`, "vocab": `{"a": 0, "b": 1, "ab": 2}`, "merges": `["a b"]`, "added": `[{"id": 3, "content": "<s>", "special": true}]`,
		"normalizer": "null", "pre": `{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}`, "post": "null", "decoder": "null", "unk": "null", "more": "",
	}
	for k, v := range changes {
		parts[k] = v
	}
	return fmt.Appendf(nil, `{"added_tokens": %s, "normalizer": %s, "pre_tokenizer": %s, "post_processor": %s, "decoder": %s, "model": {"type": %s, "unk_token": %s, "vocab": %s, "merges": %s}%s}`,
		parts["added"], parts["normalizer"], parts["pre"], parts["post"], parts["decoder"], parts["type"], parts["unk"], parts["vocab"], parts["merges"], parts["more"])
}

func TestGivenABrokenTokenizerJSONTheErrorNamesWhatIsWrong(t *testing.T) {
	_, err := FromFiles(hostile(nil), nil, nil)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		changes map[string]string
		message string
	}{
		"another model type":       {map[string]string{"type": `"Unigram"`}, `"Unigram"`},
		"a unigram vocabulary":     {map[string]string{"vocab": `[["a", -1.5]]`}, "Unigram"},
		"a huge id":                {map[string]string{"vocab": `{"a": 0, "b": 2000000000}`}, "2000000000"},
		"an id beyond 64 bits":     {map[string]string{"vocab": `{"a": 99999999999999999999}`}, "whole number"},
		"a negative id":            {map[string]string{"vocab": `{"a": -1}`}, "-1"},
		"an id used twice":         {map[string]string{"vocab": `{"a": 0, "b": 1, "ab": 1}`}, "id 1 is used twice"},
		"a key used twice":         {map[string]string{"vocab": `{"a": 0, "a": 1}`}, "twice"},
		"a token too long":         {map[string]string{"vocab": `{"` + strings.Repeat("a", maxPiece+1) + `": 0}`}, "bytes long"},
		"a merge of strangers":     {map[string]string{"merges": `["a c"]`}, "merge 0"},
		"a merge into nothing":     {map[string]string{"merges": `["b a"]`}, "merge 0"},
		"a merge with nothing":     {map[string]string{"merges": `[["", "a"]]`}, "merge 0"},
		"a cyclic merge":           {map[string]string{"merges": `[["ab", ""], ["", "ab"]]`}, "merge 0"},
		"a merge listed twice":     {map[string]string{"merges": `["a b", "a b"]`}, "twice"},
		"a merge of three":         {map[string]string{"merges": `["a b c"]`}, "two tokens"},
		"a merge of one":           {map[string]string{"merges": `[["a"]]`}, "two"},
		"an unknown token absent":  {map[string]string{"unk": `"<unk>"`}, "<unk>"},
		"an added id taken":        {map[string]string{"added": `[{"id": 0, "content": "<s>"}]`}, "<s>"},
		"an added id huge":         {map[string]string{"added": `[{"id": 1000000000, "content": "<s>"}]`}, "1000000000"},
		"an added token twice":     {map[string]string{"added": `[{"id": 3, "content": "x"}, {"id": 3, "content": "x"}]`}, "twice"},
		"an added token elsewhere": {map[string]string{"added": `[{"id": 3, "content": "ab"}]`}, "2 in the vocabulary"},
		"an added token empty":     {map[string]string{"added": `[{"id": 3, "content": ""}]`}, "no content"},
		"an unknown pattern":       {map[string]string{"pre": `{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\w+|x"}, "behavior": "Isolated"}]}`}, `\\w+|x`},
		"an unknown pre-tokenizer": {map[string]string{"pre": `{"type": "BertPreTokenizer"}`}, "BertPreTokenizer"},
		"an unknown normalizer":    {map[string]string{"normalizer": `{"type": "Lowercase"}`}, "Lowercase"},
		"an unknown processor":     {map[string]string{"post": `{"type": "BertProcessing"}`}, "BertProcessing"},
		"a processor's wild id":    {map[string]string{"post": `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [77]}}}`}, "77"},
		"an unknown decoder":       {map[string]string{"decoder": `{"type": "WordPiece"}`}, "WordPiece"},
		"nesting without end":      {map[string]string{"normalizer": strings.Repeat(`{"type":"Sequence","normalizers":[`, 9999)}, "nested"},
		"text behind the end":      {map[string]string{"more": `} {`}, "after the end"},
		"a field twice":            {map[string]string{"more": `, "model": {}`}, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := FromFiles(hostile(c.changes), nil, nil)
			require.ErrorContains(t, err, "tokenizer.json")
			require.ErrorContains(t, err, c.message)
		})
	}
	_, err = FromFiles(nil, nil, nil)
	require.ErrorContains(t, err, "no tokenizer.json")
	_, err = FromFiles([]byte(`{}`), nil, nil)
	require.ErrorContains(t, err, "model")
	_, err = FromFiles(hostile(nil), nil, []byte(`{"eos_token": "<end>"}`))
	require.ErrorContains(t, err, `eos_token "<end>"`)
}

func TestGivenATruncatedFileEveryCutIsAnError(t *testing.T) {
	whole := hostile(nil)
	for n := range whole {
		_, err := FromFiles(whole[:n], nil, nil)
		require.Error(t, err, "%d of %d bytes", n, len(whole))
	}
	model, err := os.ReadFile("testdata/tiny-collapsing.model")
	require.NoError(t, err)
	want := encodeModel(t, model)
	for n := range model {
		_, err := FromFiles(nil, model[:n], nil)
		if err == nil { // only fields behind the last that matters are gone
			require.Equal(t, want, encodeModel(t, model[:n]))
			require.Greater(t, n, len(model)*3/4)
		}
	}
}

func encodeModel(t *testing.T, model []byte) []int32 {
	tok, err := FromFiles(nil, model, nil)
	require.NoError(t, err)
	ids, err := tok.Encode("  the  cat ", EncodeOptions{AddSpecial: true})
	require.NoError(t, err)
	return ids
}

func TestGivenAClassThatLetsTheConfigDecideItDecidesOverTheTokensAround(t *testing.T) {
	encode := func(config string) []int32 {
		tok, err := FromFiles(hostile(nil), nil, []byte(config))
		require.NoError(t, err)
		ids, err := tok.Encode("ab", EncodeOptions{AddSpecial: true})
		require.NoError(t, err)
		return ids
	}
	require.Equal(t, []int32{2}, encode(`{"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": true, "bos_token": "<s>"}`))
	require.Equal(t, []int32{3, 2}, encode(`{"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true, "bos_token": "<s>"}`))
	require.Equal(t, []int32{2, 3}, encode(`{"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false, "add_eos_token": true, "bos_token": "<s>", "eos_token": {"content": "<s>"}}`))
}

func TestGivenATiktokenFileTheErrorSaysWhatToUse(t *testing.T) {
	_, err := FromFiles(nil, []byte("IQ== 0\nIg== 1\n"), nil)
	require.ErrorContains(t, err, "tiktoken")
}

// fakeMetadata stands in for a GGUF file's.
type fakeMetadata map[string]any

func get[T any](m fakeMetadata, key string) (T, bool) {
	v, ok := m[key].(T)
	return v, ok
}

func (m fakeMetadata) String(key string) (string, bool)    { return get[string](m, key) }
func (m fakeMetadata) Int(key string) (int64, bool)        { return get[int64](m, key) }
func (m fakeMetadata) Bool(key string) (bool, bool)        { return get[bool](m, key) }
func (m fakeMetadata) Strings(key string) ([]string, bool) { return get[[]string](m, key) }
func (m fakeMetadata) Ints(key string) ([]int64, bool)     { return get[[]int64](m, key) }
func (m fakeMetadata) Floats(key string) ([]float64, bool) { return get[[]float64](m, key) }
func (m fakeMetadata) Keys() (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestGivenBrokenMetadataTheErrorNamesTheKey(t *testing.T) {
	const p = "tokenizer.ggml."
	good := func() fakeMetadata {
		return fakeMetadata{
			p + "model": "gpt2", p + "pre": "qwen2", p + "tokens": []string{"a", "b", "ab", "<s>"}, p + "token_type": []int64{1, 1, 1, 3},
			p + "merges": []string{"a b"}, p + "bos_token_id": int64(3), p + "eos_token_id": int64(3), "tokenizer.chat_template": "x", "tokenizer.chat_template.tool_use": "y",
		}
	}
	scored := func() fakeMetadata {
		return fakeMetadata{p + "model": "llama", p + "tokens": []string{"<unk>", "a", "b", "ab"}, p + "token_type": []int64{2, 1, 1, 1}, p + "scores": []float64{0, -1, -2, -3}, p + "unknown_token_id": int64(0)}
	}
	tok, err := fromMetadata(good())
	require.NoError(t, err)
	require.Equal(t, []int32{3}, tok.EOS())
	require.Equal(t, "x", tok.ChatTemplate())
	_, err = fromMetadata(scored())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		base    func() fakeMetadata
		key     string
		value   any
		message string
	}{
		"no model":              {good, "model", nil, "tokenizer.ggml.model"},
		"an unknown model":      {good, "model", "bert", `"bert"`},
		"no pre":                {good, "pre", nil, "tokenizer.ggml.pre"},
		"an unknown pre":        {good, "pre", "falcon", `unknown pre-tokenizer "falcon" (known: gpt-2`},
		"no tokens":             {good, "tokens", []string{}, "tokenizer.ggml.tokens"},
		"too few types":         {good, "token_type", []int64{1}, "token_type"},
		"an unknown type":       {good, "token_type", []int64{1, 1, 1, 9}, "token_type[3] is 9"},
		"no merges":             {good, "merges", nil, "tokenizer.ggml.merges"},
		"a merge of strangers":  {good, "merges", []string{"a c"}, "merge 0"},
		"an end out of range":   {good, "eos_token_id", int64(4), "eos_token_id is 4"},
		"a begin out of range":  {good, "bos_token_id", int64(-1), "bos_token_id is -1"},
		"a pad out of range":    {good, "padding_token_id", int64(1 << 40), "padding_token_id"},
		"a token twice":         {good, "tokens", []string{"a", "a", "ab", "<s>"}, "twice"},
		"no scores":             {scored, "scores", nil, "scores"},
		"a byte that is none":   {scored, "token_type", []int64{2, 6, 1, 1}, "typed as a byte"},
		"a piece that is empty": {scored, "tokens", []string{"<unk>", "", "b", "ab"}, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			md := c.base()
			delete(md, p+c.key)
			if c.value != nil {
				md[p+c.key] = c.value
			}
			_, err := fromMetadata(md)
			require.ErrorContains(t, err, c.message)
		})
	}
}
