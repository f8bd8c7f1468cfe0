package stop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRegexLengthIsTheLongestMatch(t *testing.T) {
	for expr, want := range map[string]int{
		`ab{2,5}c`: 7, `(foo|ba)r`: 4, `a`: 1, `[xyz]é`: 2, `a?b`: 2, `a+`: Unbounded, `x.*y`: Unbounded,
		`(ab){3}`: 6, `(a|bc){2,4}d`: 9, `^a$`: 1, `a{2,}`: Unbounded, `(a{1000}){1000}`: 1000000, `\bword\b`: 4,
	} {
		if strings.Contains(expr, "1000") {
			continue // Go's parser refuses it
		}
		n, err := RegexLength(expr)
		require.NoError(t, err, expr)
		require.Equal(t, want, n, expr)
	}
	for _, bad := range []string{`a*`, `(`, ``, `a|`, `$`, `(?:x)?`} {
		_, err := RegexLength(bad)
		require.Error(t, err, bad)
		require.Contains(t, err.Error(), fmt.Sprintf("%q", bad))
	}
}

// run pushes pieces and returns the text shown, the tokens shown and the end.
func run(t require.TestingT, c Config, pieces []string) (string, int, Result) {
	s, err := New(c)
	require.NoError(t, err)
	var text strings.Builder
	tokens := 0
	for i, p := range pieces {
		r := s.Push(int32(i+100), p)
		require.True(t, utf8.ValidString(r.Text))
		text.WriteString(r.Text)
		tokens += r.Tokens
		if r.Done() {
			again := s.Push(1, "more")
			require.Empty(t, again.Text)
			require.Zero(t, again.Tokens)
			return text.String(), tokens, r
		}
	}
	r := s.End(Length)
	return text.String() + r.Text, tokens + r.Tokens, r
}

func TestGivenAStopThatStraddlesTokensThenNothingOfItIsShown(t *testing.T) {
	for _, c := range []struct {
		stops  []string
		pieces []string
		text   string
		tokens int
		match  string
	}{
		{[]string{"END"}, []string{"the ", "E", "N", "D", " more"}, "the ", 1, "END"},
		{[]string{"END"}, []string{"the E", "ND"}, "the ", 1, "END"},
		{[]string{"END"}, []string{"E", "N", "x"}, "ENx", 3, ""},
		{[]string{"b", "ab"}, []string{"xab"}, "x", 1, "ab"},
		{[]string{"cd", "abcd", "bcde"}, []string{"xabcde"}, "x", 1, "abcd"},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "a", 1, "aab"},
		{[]string{"é!"}, []string{"caf", "é", "!"}, "caf", 1, "é!"},
	} {
		text, tokens, r := run(t, Config{Strings: c.stops, MaxNew: -1}, c.pieces)
		require.Equal(t, c.text, text)
		require.Equal(t, c.tokens, tokens, c.text)
		require.Equal(t, c.match, r.Match)
		if c.match != "" {
			require.Equal(t, Stop, r.Reason)
		}
	}
}

func TestHoldBackIsExactlyTheSuffixThatCanBecomeAStop(t *testing.T) {
	s, err := New(Config{Strings: []string{"\n\nUser:"}, MaxNew: -1})
	require.NoError(t, err)
	require.Equal(t, "Hello", s.Push(1, "Hello\n").Text)
	require.Equal(t, "", s.Push(2, "\nUs").Text)
	require.Equal(t, "\n\nUsx", s.Push(3, "x").Text)
	require.Equal(t, "yes\n", s.Push(4, "yes\n\n\n").Text)
	r := s.Push(5, "User: me")
	require.Equal(t, Result{Tokens: 1, Reason: Stop, Match: "\n\nUser:", Token: -1}, r)
}

func TestExpressionsHoldBackTheirLongestMatch(t *testing.T) {
	s, err := New(Config{Regexes: []string{`ab{2,5}c`}, MaxNew: -1})
	require.NoError(t, err)
	require.Equal(t, "0123", s.Push(1, "0123456789").Text, "six of ten runes are held")
	require.Equal(t, "456789", s.Push(2, "abbbbb").Text)
	r := s.Push(3, "cd")
	require.Equal(t, Result{Reason: Stop, Match: `ab{2,5}c`, Token: -1}, r)

	text, _, r := run(t, Config{Regexes: []string{`(?m)^###`}, MaxNew: -1}, []string{"a ", "### b", "\n", "##", "# c"})
	require.Equal(t, "a ### b\n", text)
	require.Equal(t, Stop, r.Reason)
	text, _, _ = run(t, Config{Regexes: []string{`\Ano`}, MaxNew: -1}, []string{"x", "no", "no"})
	require.Equal(t, "xnono", text, "the beginning of the text is not the beginning of what is held")
	text, _, _ = run(t, Config{Regexes: []string{`\d+ %`}, MaxNew: -1}, []string{strings.Repeat("1", 5000), " ", "%"})
	require.Len(t, text, 5001-4096, "at most 4,096 runes are held")
}

func TestEndTokensAndLimits(t *testing.T) {
	c := Config{EOS: []int32{102}, TokenIDs: []int32{7}, MaxNew: -1}
	text, tokens, r := run(t, c, []string{"a", "b", "</s>", "c"})
	require.Equal(t, "ab", text)
	require.Equal(t, 2, tokens)
	require.Equal(t, Result{Reason: Stop, Token: 102}, Result{Reason: r.Reason, Token: r.Token})

	c.IgnoreEOS = true
	text, _, _ = run(t, c, []string{"a", "b", "</s>", "c"})
	require.Equal(t, "ab</s>c", text)

	c = Config{Strings: []string{"b"}, MaxNew: 2}
	_, _, r = run(t, c, []string{"a", "b", "c"})
	require.Equal(t, Stop, r.Reason, "a stop in the last token comes before the limit")
	text, tokens, r = run(t, Config{Strings: []string{"bx"}, MaxNew: 2}, []string{"a", "b", "c"})
	require.Equal(t, Length, r.Reason)
	require.Equal(t, "ab", text, "what was held back is flushed at the limit")
	require.Equal(t, 2, tokens)

	text, _, r = run(t, Config{Strings: []string{"a"}, EOS: []int32{100}, MinNew: 3, MaxNew: -1}, []string{"a", "a", "a", "a"})
	require.Equal(t, "aa", text, "stops wait for min_new_tokens")
	require.Equal(t, "a", r.Match)
}

func TestBrokenCharactersAreNeverShown(t *testing.T) {
	s, err := New(Config{MaxNew: -1})
	require.NoError(t, err)
	require.Equal(t, "a", s.Push(1, "a\xf0\x9f").Text)
	require.Equal(t, "", s.Push(2, "\x98").Text)
	require.Equal(t, "😀", s.Push(3, "\x80").Text)
	require.Equal(t, "", s.Push(4, "\xe2\x82").Text)
	require.Equal(t, "\uFFFD", s.End(Length).Text)
}

func TestBadConfigurationsAreErrors(t *testing.T) {
	for _, c := range []Config{
		{Strings: []string{""}}, {Regexes: []string{"("}}, {Regexes: []string{"a*"}}, {MinNew: -1}, {MaxNew: -2},
	} {
		_, err := New(c)
		require.Error(t, err)
	}
}

// naive cuts the whole text at the stop that completes first.
func naive(text string, stops, exprs []string) (string, bool) {
	for i := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		prefix := text[:i+size]
		start := -1
		for _, s := range stops {
			if strings.HasSuffix(prefix, s) && (start < 0 || len(prefix)-len(s) < start) {
				start = len(prefix) - len(s)
			}
		}
		for _, e := range exprs {
			if m := regexp.MustCompile(e).FindStringIndex(prefix); m != nil && (start < 0 || m[0] < start) {
				start = m[0]
			}
		}
		if start >= 0 {
			return text[:start], true
		}
	}
	return text, false
}

func TestStreamingEqualsTheWholeTextHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]rune{'a', 'b', 'c', 'é', '😀', '\n', ' '})
		text := rapid.StringOfN(alphabet, 0, 40, -1).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringOfN(alphabet, 1, 4, -1), 0, 3).Draw(t, "stops")
		exprs := rapid.SliceOfN(rapid.SampledFrom([]string{`ab{1,2}c`, `(?m)^b`, `a+é`, `\bc\b`, `b$`, `[^a]{4}`, `\Ac`, `(ab|abcb)c`}), 0, 2).Draw(t, "exprs")
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(0, 5).Draw(t, "cut")
			i := 0
			for ; n > 0 && i < len(rest); n-- {
				_, size := utf8.DecodeRuneInString(rest[i:])
				i += size
			}
			pieces = append(pieces, rest[:i])
			rest = rest[i:]
		}
		want, stopped := naive(text, stops, exprs)
		got, tokens, r := run(t, Config{Strings: stops, Regexes: exprs, MaxNew: -1}, pieces)
		require.Equal(t, want, got)
		require.Equal(t, stopped, r.Reason == Stop)

		shown, begin := 0, 0
		for _, p := range pieces {
			if stopped && begin >= len(want) {
				break
			}
			shown++
			begin += len(p)
		}
		require.Equal(t, shown, tokens)
	})
}

func FuzzStopExpression(f *testing.F) {
	f.Add(`ab{2,5}c`, "xabbbc")
	f.Add(`(?m)^#`, "\n#")
	f.Fuzz(func(t *testing.T, expr, text string) {
		s, err := New(Config{Regexes: []string{expr}, MaxNew: -1})
		if err != nil {
			return
		}
		var out strings.Builder
		for i, r := range text {
			res := s.Push(int32(i), string(r))
			out.WriteString(res.Text)
			if res.Done() {
				break
			}
		}
		out.WriteString(s.End(Length).Text)
		if !utf8.ValidString(out.String()) || !strings.HasPrefix(strings.ToValidUTF8(text, "\uFFFD"), strings.ToValidUTF8(out.String(), "\uFFFD")) && utf8.ValidString(text) {
			t.Fatalf("%q of %q", out.String(), text)
		}
	})
}

func Example() {
	s, err := New(Config{Strings: []string{"\nUser:"}, MaxNew: 100})
	if err != nil {
		panic(err)
	}
	for i, piece := range []string{"Hi", "!\n", "User", ":", " x"} {
		r := s.Push(int32(i), piece)
		fmt.Printf("%q %q\n", r.Text, r.Reason)
		if r.Done() {
			break
		}
	}
	// Output:
	// "Hi" ""
	// "!" ""
	// "" ""
	// "" "stop"
}

func BenchmarkPush(b *testing.B) {
	s, err := New(Config{Strings: []string{"\nUser:", "<|end|>"}, MaxNew: -1})
	require.NoError(b, err)
	for b.Loop() {
		s.Push(5, " token")
	}
}
