package tokenizer

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

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

// FuzzTemplate holds our part of rendering, the rewriting, to two promises: it
// never panics, and text without tags comes out as it went in.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"{{ messages[0].content }}", "{% macro m(a) -%} {{ a|tojson(indent=2) }}{% endmacro %}{{ m(messages) }}",
		"{%- for m in messages %}{# c #}{{ m }}{% endfor %}", "{% raw %}{{ x }}{% endraw %}", "a \\ \"quoted\" \n\r\n", "{{ {'a': {'b': 1}} }}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, template string) {
		_, _ = prepareTemplate(template)
		text := strings.ToValidUTF8(strings.ReplaceAll(template, "{", "("), "")
		if len(text) > maxTemplate {
			return
		}
		got, err := RenderChat(text, nil, ChatOptions{}, nil)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSuffix(newlines.Replace(text), "\n"), got)
	})
}
