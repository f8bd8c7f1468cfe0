package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func tinyBytes(tb testing.TB) *Tokenizer {
	config := []byte(`{"bos_token": {"content": "<s>"}, "eos_token": "<|im_end|>", "chat_template": "{{ messages[0].content }}"}`)
	tok, err := FromFiles(tinyVariant(tb, "bytelevel", nil), nil, config)
	require.NoError(tb, err)
	return tok
}

func tinySentencePiece(tb testing.TB) *Tokenizer {
	data, err := os.ReadFile("testdata/tiny-sentencepiece.model")
	require.NoError(tb, err)
	tok, err := FromFiles(nil, data, nil)
	require.NoError(tb, err)
	return tok
}

// naiveMerge is the definition: the lowest rank, leftmost, until none is left.
func naiveMerge(t *mergeTable, syms []int32) []int32 {
	for {
		at, best, made := -1, int32(noRank), int32(0)
		for i := 0; i+1 < len(syms); i++ {
			if rank, id := t.lookup(syms[i], syms[i+1]); rank < best {
				at, best, made = i, rank, id
			}
		}
		if at < 0 {
			return syms
		}
		syms = append(append(append([]int32{}, syms[:at]...), made), syms[at+2:]...)
	}
}

func TestGivenRandomMergesBothAlgorithmsEqualTheDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := newMergeTable(64)
		next := int32(4)
		for range rapid.IntRange(0, 60).Draw(rt, "merges") {
			l, r := rapid.Int32Range(0, next-1).Draw(rt, "left"), rapid.Int32Range(0, next-1).Draw(rt, "right")
			if table.add(l, r, rapid.Int32Range(0, 40).Draw(rt, "rank"), next) == nil {
				next++
			}
		}
		syms := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 80).Draw(rt, "symbols")
		want := naiveMerge(table, syms)
		require.Equal(rt, want, append([]int32{}, table.mergeLong(append([]int32{}, syms...))...))
		if len(syms) <= shortWord && len(syms) > 1 {
			require.Equal(rt, want, table.mergeShort(append([]int32{}, syms...)))
		}
	})
}

func TestGivenTextCutAtJointsTheIdsAreThoseOfTheWholeText(t *testing.T) {
	tok := tinySentencePiece(t)
	whole := *tok.vocab
	whole.joints, whole.cache = nil, newWordCache()
	rapid.Check(t, func(rt *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"▁", "the", "t", "h", "e", "▁a", "return", "\n", "é", "日", ":", "(", "1"})).Draw(rt, "text"), "")
		require.Equal(rt, whole.word(nil, s), tok.vocab.word(nil, s), "%q", s)
	})
}

func TestGivenAnyTextByteLevelDecodeRestoresIt(t *testing.T) {
	tok := tinyBytes(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.String().Draw(rt, "text")
		ids, err := tok.Encode(s, EncodeOptions{AddSpecial: true})
		require.NoError(rt, err)
		require.Equal(rt, s, tok.Decode(ids, true))
	})
}

func TestGivenAnyIdsStreamingEqualsDecodeAndForksAreIndependent(t *testing.T) {
	for _, tok := range []*Tokenizer{tinyBytes(t), tinySentencePiece(t)} {
		rapid.Check(t, func(rt *rapid.T) {
			ids := rapid.SliceOf(rapid.Int32Range(-1, int32(tok.VocabSize()))).Draw(rt, "ids")
			requireStreams(t, tok, ids)
			d := tok.NewDecoder(true)
			at := rapid.IntRange(0, len(ids)).Draw(rt, "fork at")
			text := ""
			for _, id := range ids[:at] {
				text += d.Push(id)
			}
			fork := d.Fork()
			forked := text
			for _, id := range ids[at:] {
				text += d.Push(id)
			}
			for _, id := range ids[at:] {
				forked += fork.Push(id)
			}
			require.Equal(rt, tok.Decode(ids, true), forked+fork.Flush())
			require.Equal(rt, tok.Decode(ids, true), text+d.Flush())
		})
	}
}

// lossy is the definition: from_utf8_lossy of Rust, one U+FFFD per maximal
// invalid part.
func lossy(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		r, w := utf8.DecodeRune(b)
		if r != utf8.RuneError || w > 1 {
			out.Write(b[:w])
			b = b[w:]
			continue
		}
		n := 1
		for n < len(b) && n < 4 && startsCharacter(b[:n+1]) {
			n++
		}
		out.WriteString("\uFFFD")
		b = b[n:]
	}
	return out.String()
}

// startsCharacter reports whether some continuation of b is valid.
func startsCharacter(b []byte) bool {
	for _, tail := range []string{"\x80", "\xbf", "\x90", "\xa0", "\x80\x80", "\x90\x80", "\xa0\x80", "\xbf\xbf", "\x8f\x80"} {
		if utf8.Valid(append(append([]byte{}, b...), tail...)) {
			return true
		}
	}
	return false
}

func TestGivenAnyBytesInvalidPartsBecomeOneReplacementEach(t *testing.T) {
	tok := tinyBytes(t)
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOf(rapid.SampledFrom([]byte("a\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xe0\xe1\xed\xf0\xf1\xf4\xf5"))).Draw(rt, "bytes")
		var ids []int32
		for _, c := range b {
			ids = append(ids, tok.vocab.byteIDs[c])
		}
		require.Equal(rt, lossy(b), tok.Decode(ids, false))
	})
}

func TestGivenAPrefixADecoderAfterItKeepsTheSpaceAndFinishesTheCharacter(t *testing.T) {
	tok := tinySentencePiece(t)
	ids, err := tok.Encode("the return é", EncodeOptions{AddSpecial: true})
	require.NoError(t, err)
	for cut := range ids {
		before := tok.NewDecoder(true)
		text := ""
		for _, id := range ids[:cut] {
			text += before.Push(id)
		}
		after := tok.NewDecoderAfter(ids[:cut], true)
		for _, id := range ids[cut:] {
			text += after.Push(id)
		}
		require.Equal(t, "the return é", text+after.Flush(), "cut at %d", cut)
	}
}

func TestGivenPlainTextControlTokensAreNotParsedButOtherAddedTokensAre(t *testing.T) {
	tok := tinyBytes(t)
	plain, err := tok.Encode("<|im_end|><think>", EncodeOptions{})
	require.NoError(t, err)
	end, _ := tok.Lookup("<|im_end|>")
	think, _ := tok.Lookup("<think>")
	require.NotContains(t, plain, end)
	require.Contains(t, plain, think)
	parsed, err := tok.Encode("<|im_end|><think>", EncodeOptions{ParseSpecial: true})
	require.NoError(t, err)
	require.Equal(t, []int32{end, think}, parsed)
	require.True(t, tok.IsSpecial(end))
	require.False(t, tok.IsSpecial(think))
	require.Equal(t, "<think>", tok.Decode(parsed, true))
}

func TestGivenInvalidUTF8EncodeNamesTheOffset(t *testing.T) {
	_, err := tinyBytes(t).Encode("ab\uFFFD\xff", EncodeOptions{})
	require.ErrorContains(t, err, "byte 5")
}

func TestGivenATokenizerTheFactsAreThoseOfItsFiles(t *testing.T) {
	tok := tinyBytes(t)
	require.Equal(t, 647, tok.VocabSize())
	require.Equal(t, int32(640), tok.BOS())
	require.Equal(t, []int32{641}, tok.EOS())
	require.Equal(t, []byte("<|im_end|>"), tok.Piece(641))
	require.Equal(t, []byte("<think>"), tok.Piece(646))
	require.Nil(t, tok.Piece(647))
	require.Nil(t, tok.Piece(-1))
	require.Equal(t, "byte-level BPE from tokenizer.json, words: gpt2, 647 tokens (384 merges, 7 added, 4 special), begin 640 \"<s>\", end 641 \"<|im_end|>\", chat template", tok.Describe())
	sp := tinySentencePiece(t)
	require.Equal(t, int32(1), sp.BOS())
	require.Equal(t, []int32{2}, sp.EOS())
	id, ok := sp.Lookup(" the")
	require.True(t, ok)
	require.Equal(t, []byte(" the"), sp.Piece(id))
	require.Equal(t, []byte{0x0A}, sp.Piece(sp.vocab.byteIDs[0x0A]))
}

func TestGivenALongWordEncodeStaysFast(t *testing.T) {
	for _, tok := range []*Tokenizer{tinyBytes(t), tinySentencePiece(t)} {
		for _, unit := range []string{"a", "the", " ", "é", "return", "\n"} {
			s := strings.Repeat(unit, 300_000/len(unit))
			ids, err := tok.Encode(s, EncodeOptions{}) // quadratic work would take minutes
			require.NoError(t, err)
			require.Equal(t, s, tok.Decode(ids, false))
		}
	}
}

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
	for n := 0; n < len(model); n += 7 {
		_, err := FromFiles(nil, model[:n], nil) // must not panic; a cut between fields lacks the trainer's part
		require.Error(t, err)
	}
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

func TestGivenEveryByteItsCharacterMapsBack(t *testing.T) {
	seen := map[rune]bool{}
	for b := range 256 {
		r := byteRune(byte(b))
		back, ok := runeByte(r)
		require.True(t, ok)
		require.Equal(t, byte(b), back)
		require.False(t, seen[r])
		seen[r] = true
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	f.Add(hostile(nil))
	f.Add(hostile(map[string]string{"pre": "null", "normalizer": `{"type": "Prepend", "prepend": "▁"}`}))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := FromFiles(data, nil, nil)
		if err != nil {
			return
		}
		ids, err := tok.Encode("ab <s> ba\n", EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.NoError(t, err)
		requireStreams(t, tok, ids)
		requireInRange(t, tok, ids)
		_ = tok.Describe()
	})
}

func FuzzTokenizerModel(f *testing.F) {
	for _, name := range []string{"tiny-sentencepiece", "tiny-collapsing"} {
		data, err := os.ReadFile("testdata/" + name + ".model")
		require.NoError(f, err)
		f.Add(data[len(data)-600:])
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := FromFiles(nil, data, nil)
		if err != nil {
			return
		}
		ids, err := tok.Encode("the  cat\n", EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.NoError(t, err)
		requireStreams(t, tok, ids)
		requireInRange(t, tok, ids)
	})
}

func requireInRange(t *testing.T, tok *Tokenizer, ids []int32) {
	for _, id := range ids {
		require.GreaterOrEqual(t, id, int32(0))
		require.Less(t, int(id), tok.VocabSize())
	}
}

func FuzzEncodeDecode(f *testing.F) {
	var all []*Tokenizer
	for _, changes := range variants(f)["bytelevel"] {
		if n, ok := changes["normalizer"]; ok && !isNull(json.RawMessage(n)) {
			continue
		}
		if strings.Contains(string(changes["pre_tokenizer"]), `"add_prefix_space": true`) {
			continue
		}
		tok, err := FromFiles(tinyVariant(f, "bytelevel", changes), nil, nil)
		require.NoError(f, err)
		all = append(all, tok)
	}
	require.Len(f, all, 3)
	all = append(all, tinySentencePiece(f))
	f.Add("Hello  world\n\t1234 it's")
	f.Add("日本語 \u00a0\u2003 é\u0301 😀 'LL/x")
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range all {
			ids, err := tok.Encode(s, EncodeOptions{})
			if !utf8.ValidString(s) {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			want := s
			if !tok.vocab.byteLevel {
				want = unmark(s)
			}
			require.Equal(t, want, tok.Decode(ids, false))
			requireStreams(t, tok, ids)
		}
	})
}
