package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// pattern is one way of cutting text into words that this package knows.
type pattern struct {
	name   string
	regex  []string   // as tokenizer.json spells it, in each spelling seen
	stages []splitter // applied one inside the other
	gguf   []string   // values of tokenizer.ggml.pre that mean it

	// What Hugging Face's files for these models say besides, where GGUF
	// metadata has no field for it.
	nfc          bool
	ignoreMerges bool
	addBOS       bool
}

const (
	regexGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	regexDeepSeekMain = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// patterns is every word splitter known. A pattern in tokenizer.json is
// recognised by its exact text, one in GGUF by its name.
var patterns = []pattern{
	{
		name:   "gpt2",
		regex:  []string{regexGPT2, `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`},
		stages: []splitter{splitGPT2},
		gguf:   []string{"gpt-2", "phi-2", "olmo", "mpt"},
	},
	{
		name: "llama3",
		regex: []string{
			`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
			`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		},
		stages:       []splitter{splitCL100k(3, isLetter, isOther)},
		gguf:         []string{"llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx"},
		ignoreMerges: true,
		addBOS:       true,
	},
	{
		name:   "qwen2",
		regex:  []string{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
		stages: []splitter{splitCL100k(1, isLetter, isOther)},
		gguf:   []string{"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"},
		nfc:    true,
	},
	{
		name:   "qwen35",
		regex:  []string{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
		stages: []splitter{splitCL100k(1, isLetterOrMark, isOtherNoMark)},
		gguf:   []string{"qwen35"},
		nfc:    true,
	},
	{
		name:         "o200k",
		regex:        []string{`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
		stages:       []splitter{splitCased(3, true)},
		gguf:         []string{"gpt-4o", "llama4"},
		ignoreMerges: true,
	},
	{
		name:         "tekken",
		regex:        []string{`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
		stages:       []splitter{splitCased(1, false)},
		gguf:         []string{"tekken"},
		ignoreMerges: true,
		addBOS:       true,
	},
	{
		name:   "smollm",
		stages: []splitter{isolate(isNumber, 1), splitGPT2},
		gguf:   []string{"smollm", "starcoder", "refact", "codeshell"},
	},
	{
		name:   "deepseek-v3",
		stages: []splitter{isolate(isNumber, 3), isolate(isCJKWord, maxRun), splitDeepSeek},
		gguf:   []string{"deepseek-v3"},
		addBOS: true,
	},

	// Building blocks that tokenizer.json lists one by one.
	{name: "numbers", regex: []string{`\p{N}`}, stages: []splitter{isolate(isNumber, 1)}},
	{name: "numbers by three", regex: []string{`\p{N}{1,3}`}, stages: []splitter{isolate(isNumber, 3)}},
	{name: "cjk", regex: []string{`[一-龥぀-ゟ゠-ヿ]+`}, stages: []splitter{isolate(isCJKWord, maxRun)}},
	{name: "deepseek words", regex: []string{regexDeepSeekMain}, stages: []splitter{splitDeepSeek}},
}

// maxRun stands for "no limit" where a run of runes has one.
const maxRun = int(^uint(0) >> 1)

func patternByRegex(regex string) (*pattern, error) {
	for i := range patterns {
		if slices.Contains(patterns[i].regex, regex) {
			return &patterns[i], nil
		}
	}
	return nil, fmt.Errorf("unknown split pattern %q (known: %s)", regex, knownPatterns(func(p *pattern) []string {
		if len(p.regex) == 0 {
			return nil
		}
		return []string{p.name}
	}))
}

func patternByGGUF(pre string) (*pattern, error) {
	for i := range patterns {
		if slices.Contains(patterns[i].gguf, pre) {
			return &patterns[i], nil
		}
	}
	return nil, fmt.Errorf("unknown pre-tokenizer %q (known: %s)", pre, knownPatterns(func(p *pattern) []string { return p.gguf }))
}

func knownPatterns(names func(*pattern) []string) string {
	var all []string
	for i := range patterns {
		all = append(all, names(&patterns[i])...)
	}
	return strings.Join(all, ", ")
}

// metaspace is the pre-tokenizer that writes spaces as ▁.
type metaspace struct {
	mark   string
	prefix string // "always", "first" or "never": when a text that has no mark in front gets one
}

// preTokenizer cuts a piece of text without added tokens into words.
type preTokenizer struct {
	name        string
	stages      []splitter
	byteLevel   bool // words are bytes rather than characters
	prefixSpace bool // a space goes in front of text that has none
	meta        *metaspace
}

// prepare applies what changes the text before it is cut. atStart says whether
// the piece begins the whole text.
func (p *preTokenizer) prepare(s string, atStart bool) string {
	if p.meta != nil {
		s = strings.ReplaceAll(s, " ", p.meta.mark)
		want := p.meta.prefix == "always" || p.meta.prefix == "first" && atStart
		if want && !strings.HasPrefix(s, p.meta.mark) {
			s = p.meta.mark + s
		}
	}
	if p.prefixSpace && !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	return s
}

// each calls word for every word of s, in order.
func (p *preTokenizer) each(s string, word func(string)) { eachStage(p.stages, s, word) }

func eachStage(stages []splitter, s string, word func(string)) {
	if len(stages) == 0 {
		word(s)
		return
	}
	for len(s) > 0 {
		n := stages[0](s)
		eachStage(stages[1:], s[:n], word)
		s = s[n:]
	}
}
