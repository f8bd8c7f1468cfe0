package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"surmise/checkpoint"
)

// Tokenizer is a vocabulary with the rules that make ids of text. It is
// immutable and safe for concurrent use.
type Tokenizer struct {
	kind        string // for people: "byte-level BPE" or "SentencePiece BPE"
	source      string // "tokenizer.json", "tokenizer.model" or "GGUF metadata"
	vocab       *vocabulary
	raw         *addedTrie // tokens looked for in the text as it is
	normalized  *addedTrie // tokens looked for in the normalised text
	normalizers []normalizer
	pre         *preTokenizer
	prefix      []int32 // put before and after a text by AddSpecial
	suffix      []int32
	stripSpace  bool // Decode drops one leading space
	byText      map[string]int32

	bos int32
	eos []int32

	template       string
	namedTemplates map[string]string // further templates of the file, by name
	specials       map[string]string // bos_token and the like, as templates see them
}

// FromCheckpoint reads the tokenizer of a checkpoint: its tokenizer.json, else
// its tokenizer.model, else its GGUF metadata; and its chat template, from
// chat_template.jinja, tokenizer_config.json or the metadata. A checkpoint with
// none of them is an error that lists what was looked for.
func FromCheckpoint(c *checkpoint.Checkpoint) (*Tokenizer, error) {
	if c.Format() == checkpoint.FormatGGUF {
		t, err := FromGGUF(c.Metadata())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path(), err)
		}
		return t, nil
	}
	files := map[string][]byte{}
	for _, name := range []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "chat_template.jinja"} {
		data, err := c.File(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		files[name] = data
	}
	t, err := FromFiles(files["tokenizer.json"], files["tokenizer.model"], files["tokenizer_config.json"])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path(), err)
	}
	if tmpl, ok := files["chat_template.jinja"]; ok {
		t.template = string(tmpl)
	}
	return t, nil
}

// FromFiles makes a tokenizer of the contents of tokenizer.json, or if that is
// nil of tokenizer.model, and of tokenizer_config.json, which may be nil: then
// there is no chat template, and the end tokens are those known by name.
func FromFiles(json, model, config []byte) (*Tokenizer, error) {
	cfg, err := parseConfig(config)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	var t *Tokenizer
	switch {
	case json != nil:
		if t, err = fromJSON(json); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w", err)
		}
	case model != nil:
		if t, err = fromSentencePiece(model, cfg); err != nil {
			return nil, fmt.Errorf("tokenizer.model: %w", err)
		}
	default:
		return nil, errors.New("tokenizer: no tokenizer.json and no tokenizer.model")
	}
	if err := t.configure(cfg); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	return t, nil
}

// finish fills what follows from the vocabulary; every constructor ends here.
func (t *Tokenizer) finish() {
	t.byText = make(map[string]int32)
	for _, trie := range []*addedTrie{t.raw, t.normalized} {
		for _, tok := range trie.tokens {
			t.byText[tok.content] = tok.id
		}
	}
	if t.specials == nil {
		t.specials = map[string]string{}
	}
	for _, text := range endTokens {
		if id, ok := t.byText[text]; ok && t.IsSpecial(id) {
			t.addEOS(id)
		}
	}
}

// endTokens are control tokens that end a text or a turn wherever they exist,
// whether or not the file names them as such: models emit them, and running on
// behind them is never wanted.
var endTokens = []string{
	"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
	"<end_of_turn>", "<eos>", "</s>", "<|end|>", "<|return|>", "<｜end▁of▁sentence｜>",
}

func (t *Tokenizer) addEOS(id int32) {
	if !slices.Contains(t.eos, id) {
		t.eos = append(t.eos, id)
		slices.Sort(t.eos)
	}
}

// Piece returns the bytes that a token stands for: what [Tokenizer.Decode]
// writes for it, before invalid UTF-8 is replaced; for a control token its
// text. It is what vocabulary mappings and grammars compare. Ids outside the
// vocabulary, and ids it leaves unused, have none.
func (t *Tokenizer) Piece(id int32) []byte {
	if id < 0 || int(id) >= len(t.vocab.pieces) || t.vocab.pieces[id] == "" {
		return nil
	}
	return []byte(t.vocab.pieces[id])
}

// Lookup returns the id of the token that stands for exactly this text: an
// added token of that spelling, else a piece of the vocabulary.
func (t *Tokenizer) Lookup(text string) (int32, bool) {
	if id, ok := t.byText[text]; ok {
		return id, true
	}
	if !t.vocab.byteLevel {
		text = strings.ReplaceAll(text, " ", spaceMark)
	}
	id, ok := t.vocab.ids[text]
	return id, ok
}

// IsSpecial reports whether id is a control token, which Decode can skip and
// plain text cannot spell.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.vocab.flags) && t.vocab.flags[id]&flagSpecial != 0
}

// VocabSize returns the number of ids: one more than the largest. A model's
// output may be wider, padded with rows that stand for nothing.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.pieces) }

// BOS returns the beginning-of-sequence token, or −1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS returns the tokens that end a text or a turn, ascending: those that the
// tokenizer files name, and control tokens known to mean it.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.eos) }

// Info is what a person wants to know about a tokenizer.
type Info struct {
	Kind         string // "byte-level BPE" or "SentencePiece BPE"
	Source       string // the file it came from
	PreTokenizer string // how text is cut into words
	Vocabulary   int    // number of ids
	Merges       int
	Added        int // tokens found in the text itself
	Special      int // of all tokens, control tokens
	BOS          int32
	EOS          []int32
	AddsBOS      bool // Encode with AddSpecial puts tokens before the text
	ChatTemplate bool
}

// Info describes the tokenizer.
func (t *Tokenizer) Info() Info {
	info := Info{
		Kind: t.kind, Source: t.source, PreTokenizer: t.pre.name,
		Vocabulary: t.VocabSize(), Merges: t.vocab.merges.count,
		Added: len(t.raw.tokens) + len(t.normalized.tokens),
		BOS:   t.bos, EOS: t.EOS(), AddsBOS: len(t.prefix) > 0,
		ChatTemplate: t.HasChatTemplate(),
	}
	for _, f := range t.vocab.flags {
		if f&flagSpecial != 0 {
			info.Special++
		}
	}
	return info
}

// Describe returns one line for people.
func (t *Tokenizer) Describe() string {
	i := t.Info()
	var ends []string
	for _, id := range i.EOS {
		ends = append(ends, fmt.Sprintf("%d %q", id, t.vocab.pieces[id]))
	}
	bos := "none"
	if i.BOS >= 0 {
		bos = fmt.Sprintf("%d %q", i.BOS, t.vocab.pieces[i.BOS])
	}
	template := "no chat template"
	if i.ChatTemplate {
		template = "chat template"
	}
	return fmt.Sprintf("%s from %s, words: %s, %d tokens (%d merges, %d added, %d special), begin %s, end %s, %s",
		i.Kind, i.Source, i.PreTokenizer, i.Vocabulary, i.Merges, i.Added, i.Special, bos, strings.Join(ends, ", "), template)
}
