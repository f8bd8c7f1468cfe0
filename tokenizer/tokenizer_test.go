package tokenizer

import (
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
