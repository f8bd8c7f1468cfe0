package tokenizer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchText is prose and code, 240 kB: the repository's own text.
func benchText(b *testing.B) string {
	var all strings.Builder
	for _, name := range []string{"testdata/make_oracles.py", "tokenizer_test.go", "hfjson.go", "splitters.go", "doc.go", "chat.go"} {
		data, err := os.ReadFile(name)
		require.NoError(b, err)
		all.Write(data)
	}
	return strings.Repeat(all.String(), 240_000/all.Len()+1)
}

func benchEncode(b *testing.B, tok *Tokenizer) {
	text := benchText(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	tokens := 0
	for b.Loop() {
		ids, err := tok.Encode(text, EncodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		tokens = len(ids)
	}
	b.ReportMetric(float64(len(text))/float64(tokens), "bytes/token")
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"qwen3", "llama3_1", "gemma3", "llama2", "smollm2"} {
		b.Run(name, func(b *testing.B) {
			tok, err := FromFiles(realFile(b, name, "tokenizer.json"), nil, nil)
			require.NoError(b, err)
			benchEncode(b, tok)
		})
	}
	b.Run("tiny", func(b *testing.B) { benchEncode(b, tinyBytes(b)) })
}

// BenchmarkEncodeCold has no word seen before: what the merges themselves cost.
func BenchmarkEncodeCold(b *testing.B) {
	for _, name := range []string{"qwen3", "gemma3"} {
		b.Run(name, func(b *testing.B) {
			tok, err := FromFiles(realFile(b, name, "tokenizer.json"), nil, nil)
			require.NoError(b, err)
			text := benchText(b)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.vocab.cache = newWordCache()
				if _, err := tok.Encode(text, EncodeOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"qwen3", "gemma3", "smollm2"} {
		b.Run(name, func(b *testing.B) {
			data := realFile(b, name, "tokenizer.json")
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := FromFiles(data, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecoderPush(b *testing.B) {
	tok := tinyBytes(b)
	ids, err := tok.Encode(benchText(b), EncodeOptions{})
	require.NoError(b, err)
	d := tok.NewDecoder(true)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		d.Push(ids[i%len(ids)])
		i++
	}
}
