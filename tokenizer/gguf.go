package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"surmise/checkpoint"
)

// metadata is what this package reads of a GGUF file's key/value pairs.
type metadata interface {
	String(key string) (string, bool)
	Int(key string) (int64, bool)
	Bool(key string) (bool, bool)
	Strings(key string) ([]string, bool)
	Ints(key string) ([]int64, bool)
	Floats(key string) ([]float64, bool)
	Keys() []string
}

// FromGGUF makes a tokenizer of a GGUF file's metadata: tokenizer.ggml.model
// "gpt2" (byte-level BPE, cut into words as tokenizer.ggml.pre says) or "llama"
// (SentencePiece BPE by scores). Where the metadata has no field for what the
// model's tokenizer.json says (normalisation, merging of whole words), the
// published file's value for that pre-tokenizer is used.
func FromGGUF(md checkpoint.Metadata) (*Tokenizer, error) {
	t, err := fromMetadata(md)
	if err != nil {
		return nil, fmt.Errorf("gguf tokenizer: %w", err)
	}
	return t, nil
}

func fromMetadata(md metadata) (*Tokenizer, error) {
	model, ok := md.String("tokenizer.ggml.model")
	if !ok {
		return nil, errors.New("no tokenizer.ggml.model")
	}
	tokens, ok := md.Strings("tokenizer.ggml.tokens")
	if !ok || len(tokens) == 0 {
		return nil, errors.New("no tokenizer.ggml.tokens")
	}
	types, ok := md.Ints("tokenizer.ggml.token_type")
	if ok && len(types) != len(tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.token_type has %d entries, tokenizer.ggml.tokens %d", len(types), len(tokens))
	}
	if !ok {
		types = make([]int64, len(tokens))
		for i := range types {
			types[i] = pieceNormal
		}
	}
	var t *Tokenizer
	var err error
	switch model {
	case "gpt2":
		t, err = ggufByteLevel(md, tokens, types)
	case "llama":
		t, err = ggufScored(md, tokens, types)
	default:
		return nil, fmt.Errorf("tokenizer.ggml.model is %q: want gpt2 or llama", model)
	}
	if err != nil {
		return nil, err
	}
	return t, t.finishGGUF(md)
}

// ggufID returns the token that key names, or −1.
func ggufID(md metadata, key string, n int) (int64, error) {
	id, ok := md.Int(key)
	if !ok {
		return -1, nil
	}
	if id < 0 || id >= int64(n) {
		return -1, fmt.Errorf("%s is %d, out of range for %d tokens", key, id, n)
	}
	return id, nil
}

func ggufFlag(md metadata, key string, otherwise bool) bool {
	if v, ok := md.Bool(key); ok {
		return v
	}
	return otherwise
}

func ggufScored(md metadata, tokens []string, types []int64) (*Tokenizer, error) {
	scores, ok := md.Floats("tokenizer.ggml.scores")
	if !ok || len(scores) != len(tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.scores has %d entries, tokenizer.ggml.tokens %d", len(scores), len(tokens))
	}
	s := &scoredVocabulary{
		pieces: tokens, scores: scores, types: types,
		dummyPrefix: ggufFlag(md, "tokenizer.ggml.add_space_prefix", true),
		addBOS:      ggufFlag(md, "tokenizer.ggml.add_bos_token", true),
		addEOS:      ggufFlag(md, "tokenizer.ggml.add_eos_token", false),
	}
	for key, into := range map[string]*int64{
		"tokenizer.ggml.unknown_token_id": &s.unk,
		"tokenizer.ggml.bos_token_id":     &s.bos,
		"tokenizer.ggml.eos_token_id":     &s.eos,
	} {
		id, err := ggufID(md, key, len(tokens))
		if err != nil {
			return nil, err
		}
		*into = id
	}
	return s.build("GGUF metadata")
}

func ggufByteLevel(md metadata, tokens []string, types []int64) (*Tokenizer, error) {
	pre, ok := md.String("tokenizer.ggml.pre")
	if !ok {
		return nil, errors.New("no tokenizer.ggml.pre, so how words are cut is unknown: convert the file again")
	}
	pat, err := patternByGGUF(pre)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.pre: %w", err)
	}
	t := &Tokenizer{
		source: "GGUF metadata", bos: -1, raw: newAddedTrie(), normalized: newAddedTrie(),
		pre: &preTokenizer{name: pat.name, stages: pat.stages, byteLevel: true, prefixSpace: ggufFlag(md, "tokenizer.ggml.add_space_prefix", false)},
	}
	if pat.nfc {
		t.normalizers = append(t.normalizers, nfc)
	}
	if t.vocab, err = ggufVocabulary(md, tokens, types, pat.ignoreMerges); err != nil {
		return nil, err
	}
	t.kind = kindOf(t.vocab)
	for id, text := range tokens {
		special := types[id] == pieceControl || types[id] == pieceUnknown
		if !special && types[id] != pieceUserDefined {
			continue
		}
		if err := t.addToken(hfAddedToken{ID: int64(id), Content: text, Special: special}, len(tokens)); err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
		}
	}
	bos, err := ggufID(md, "tokenizer.ggml.bos_token_id", len(tokens))
	if err != nil {
		return nil, err
	}
	eos, err := ggufID(md, "tokenizer.ggml.eos_token_id", len(tokens))
	if err != nil {
		return nil, err
	}
	t.bos = int32(bos)
	if eos >= 0 {
		t.addEOS(int32(eos))
	}
	if bos >= 0 && ggufFlag(md, "tokenizer.ggml.add_bos_token", pat.addBOS) {
		t.prefix = []int32{int32(bos)}
	}
	if eos >= 0 && ggufFlag(md, "tokenizer.ggml.add_eos_token", false) {
		t.suffix = []int32{int32(eos)}
	}
	return t, nil
}

// ggufVocabulary makes the vocabulary of the tokens that words consist of.
func ggufVocabulary(md metadata, tokens []string, types []int64, ignoreMerges bool) (*vocabulary, error) {
	list, ok := md.Strings("tokenizer.ggml.merges")
	if !ok {
		return nil, errors.New("no tokenizer.ggml.merges")
	}
	v := newVocabulary(true, len(tokens))
	v.ignoreMerges = ignoreMerges
	for id, text := range tokens {
		switch types[id] {
		case pieceNormal:
			if err := v.addPiece(int64(id), []byte(text), len(tokens)); err != nil {
				return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
			}
		case pieceUnused, pieceByte:
			if err := v.set(int64(id), text, 0, len(tokens)); err != nil {
				return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
			}
		case pieceUnknown, pieceControl, pieceUserDefined:
		default:
			return nil, fmt.Errorf("tokenizer.ggml.token_type[%d] is %d: want 1 to 6", id, types[id])
		}
	}
	merges := make([]hfMerge, len(list))
	for i, m := range list {
		left, right, ok := strings.Cut(m, " ")
		if !ok || strings.Contains(right, " ") {
			return nil, fmt.Errorf("tokenizer.ggml.merges[%d] is %.60q: want two tokens with one space between", i, m)
		}
		merges[i] = hfMerge{[]byte(left), []byte(right)}
	}
	if err := v.addMerges(merges); err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.merges: %w", err)
	}
	return v, nil
}

// finishGGUF reads the further end tokens and the chat templates.
func (t *Tokenizer) finishGGUF(md metadata) error {
	t.finish()
	n := t.VocabSize()
	for _, key := range []string{"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"} {
		id, err := ggufID(md, key, n)
		if err != nil {
			return err
		}
		if id >= 0 {
			t.addEOS(int32(id))
		}
	}
	for name, key := range map[string]string{
		"bos_token": "tokenizer.ggml.bos_token_id",
		"eos_token": "tokenizer.ggml.eos_token_id",
		"unk_token": "tokenizer.ggml.unknown_token_id",
		"pad_token": "tokenizer.ggml.padding_token_id",
	} {
		id, err := ggufID(md, key, n)
		if err != nil {
			return err
		}
		if id >= 0 {
			t.specials[name] = t.vocab.pieces[id]
		}
	}
	t.template, _ = md.String(ggufTemplate)
	for _, key := range md.Keys() {
		if name, ok := strings.CutPrefix(key, ggufTemplate+"."); ok {
			if text, ok := md.String(key); ok {
				t.setTemplate(name, text)
			}
		}
	}
	return nil
}

const ggufTemplate = "tokenizer.chat_template"
