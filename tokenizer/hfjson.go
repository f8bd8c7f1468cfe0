package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// hfFile is tokenizer.json with the large parts left as they stand.
type hfFile struct {
	AddedTokens   []hfAddedToken
	Normalizer    json.RawMessage
	PreTokenizer  json.RawMessage
	PostProcessor json.RawMessage
	Decoder       json.RawMessage
	model         hfModel
}

type hfAddedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// hfModel is the "model" object.
type hfModel struct {
	Type         string
	Unk          *string
	Prefix       string // continuing_subword_prefix
	Suffix       string // end_of_word_suffix
	Dropout      *float64
	ByteFallback bool
	FuseUnk      bool
	IgnoreMerges bool
	vocab        []hfEntry
	merges       []hfMerge
}

type hfEntry struct {
	text []byte
	id   int64
}

type hfMerge struct{ left, right []byte }

// fromJSON reads tokenizer.json.
func fromJSON(data []byte) (*Tokenizer, error) {
	f, err := scanHFFile(data)
	if err != nil {
		return nil, err
	}
	m := &f.model
	if m.Type != "BPE" {
		return nil, fmt.Errorf("model.type is %q: only BPE is supported", m.Type)
	}
	if m.Prefix != "" || m.Suffix != "" {
		return nil, fmt.Errorf("model has continuing_subword_prefix %q and end_of_word_suffix %q: neither is supported", m.Prefix, m.Suffix)
	}
	if m.Dropout != nil && *m.Dropout != 0 {
		return nil, fmt.Errorf("model.dropout is %v: only 0 is supported, ids would be random", *m.Dropout)
	}
	t := &Tokenizer{source: "tokenizer.json", bos: -1, raw: newAddedTrie(), normalized: newAddedTrie()}
	if t.normalizers, err = parseNormalizers(f.Normalizer, 0); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if t.pre, err = parsePreTokenizer(f.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if t.vocab, err = m.build(t.pre.byteLevel, f.AddedTokens); err != nil {
		return nil, err
	}
	t.kind = kindOf(t.vocab)
	if err := t.addTokens(f.AddedTokens, len(m.vocab)+len(f.AddedTokens)); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if t.prefix, t.suffix, err = parsePostProcessor(f.PostProcessor, t.VocabSize()); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if t.stripSpace, err = parseDecoder(f.Decoder, t.vocab.byteLevel, 0); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return t, nil
}

func kindOf(v *vocabulary) string {
	if v.byteLevel {
		return "byte-level BPE"
	}
	return "SentencePiece BPE"
}

// scanHFFile splits the document into its parts.
func scanHFFile(data []byte) (*hfFile, error) {
	f := &hfFile{}
	s := &jsonScanner{b: data}
	seen := map[string]bool{}
	err := s.object(func(key []byte) error {
		if seen[string(key)] {
			return s.errorf("field %q appears twice", key)
		}
		seen[string(key)] = true
		if string(key) == "model" {
			return f.model.scan(s)
		}
		raw, err := s.value()
		if err != nil {
			return err
		}
		var into any
		switch string(key) {
		case "added_tokens":
			into = &f.AddedTokens
		case "normalizer":
			into = &f.Normalizer
		case "pre_tokenizer":
			into = &f.PreTokenizer
		case "post_processor":
			into = &f.PostProcessor
		case "decoder":
			into = &f.Decoder
		default:
			return nil
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err == nil {
		err = s.end()
	}
	if err == nil && !seen["model"] {
		err = errors.New("no \"model\"")
	}
	return f, err
}

func (m *hfModel) scan(s *jsonScanner) error {
	seen := map[string]bool{}
	return s.object(func(key []byte) error {
		if seen[string(key)] {
			return s.errorf("field model.%s appears twice", key)
		}
		seen[string(key)] = true
		var into any
		switch string(key) {
		case "vocab":
			return m.scanVocab(s)
		case "merges":
			return m.scanMerges(s)
		case "type":
			into = &m.Type
		case "unk_token":
			into = &m.Unk
		case "continuing_subword_prefix":
			into = &m.Prefix
		case "end_of_word_suffix":
			into = &m.Suffix
		case "dropout":
			into = &m.Dropout
		case "byte_fallback":
			into = &m.ByteFallback
		case "fuse_unk":
			into = &m.FuseUnk
		case "ignore_merges":
			into = &m.IgnoreMerges
		}
		raw, err := s.value()
		if err != nil || into == nil {
			return err
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("model.%s: %w", key, err)
		}
		return nil
	})
}

func (m *hfModel) scanVocab(s *jsonScanner) error {
	if s.peek() == '[' {
		return s.errorf("model.vocab is a list, as Unigram models have it: only BPE is supported")
	}
	return s.object(func(key []byte) error {
		id, err := s.int()
		if err != nil {
			return fmt.Errorf("model.vocab[%.60q]: %w", key, err)
		}
		m.vocab = append(m.vocab, hfEntry{key, id})
		return nil
	})
}

// scanMerges reads merges in both spellings, "a b" and ["a", "b"].
func (m *hfModel) scanMerges(s *jsonScanner) error {
	return s.array(func() error {
		if s.peek() == '"' {
			both, err := s.string()
			if err != nil {
				return err
			}
			left, right, ok := bytes.Cut(both, []byte(" "))
			if !ok || bytes.IndexByte(right, ' ') >= 0 {
				return s.errorf("merge %d is %.60q: want two tokens with one space between", len(m.merges), both)
			}
			m.merges = append(m.merges, hfMerge{left, right})
			return nil
		}
		var parts [2][]byte
		n := 0
		err := s.array(func() error {
			p, err := s.string()
			if n < len(parts) {
				parts[n] = p
			}
			n++
			return err
		})
		if err != nil {
			return err
		}
		if n != len(parts) {
			return s.errorf("merge %d has %d tokens: want two", len(m.merges), n)
		}
		m.merges = append(m.merges, hfMerge{parts[0], parts[1]})
		return nil
	})
}

// build makes the vocabulary and its merges.
func (m *hfModel) build(byteLevel bool, added []hfAddedToken) (*vocabulary, error) {
	v := newVocabulary(byteLevel, len(m.vocab)+len(added))
	limit := len(m.vocab) + len(added)
	for _, e := range m.vocab {
		if err := v.addPiece(e.id, e.text, limit); err != nil {
			return nil, fmt.Errorf("model.vocab: %w", err)
		}
	}
	v.fuseUnk, v.ignoreMerges = m.FuseUnk, m.IgnoreMerges
	if m.Unk != nil {
		id, ok := v.ids[*m.Unk]
		if !ok {
			return nil, fmt.Errorf("model.unk_token %q is not in model.vocab", *m.Unk)
		}
		v.unk = id
	}
	if !byteLevel && !m.ByteFallback {
		for i := range v.byteIDs {
			v.byteIDs[i] = -1
		}
	}
	if err := v.addMerges(m.merges); err != nil {
		return nil, fmt.Errorf("model.merges: %w", err)
	}
	return v, nil
}

// addPiece records one token as files spell it.
func (v *vocabulary) addPiece(id int64, text []byte, limit int) error {
	if v.byteLevel {
		raw, ok := appendBytes(make([]byte, 0, len(text)), text)
		if !ok {
			// Not reachable through bytes: a control token, or dead weight.
			return v.set(id, string(text), 0, limit)
		}
		piece := string(raw)
		if err := v.set(id, piece, 0, limit); err != nil {
			return err
		}
		if len(raw) == 1 {
			v.byteIDs[raw[0]] = int32(id)
		}
		return v.index(id, piece)
	}
	piece, flags := string(text), tokenFlags(0)
	shown := piece
	if b, ok := byteToken(piece); ok {
		v.byteIDs[b] = int32(id)
		shown, flags = string([]byte{b}), flagByte
	} else if bytes.Contains(text, []byte(spaceMark)) {
		shown = unmark(piece)
	}
	if err := v.set(id, shown, flags, limit); err != nil {
		return err
	}
	return v.index(id, piece)
}

// addMerges fills the merge table; the position in the list is the rank.
func (v *vocabulary) addMerges(merges []hfMerge) error {
	v.merges = newMergeTable(len(merges))
	joints := &jointSet{}
	cuttable := !v.byteLevel && !v.ignoreMerges
	var left, right, both []byte
	for rank, m := range merges {
		left, right = m.left, m.right
		if v.byteLevel {
			var okL, okR bool
			both, okL = appendBytes(both[:0], m.left)
			n := len(both)
			both, okR = appendBytes(both, m.right)
			if !okL || !okR {
				return fmt.Errorf("merge %d, %.60q + %.60q: not made of byte characters", rank, m.left, m.right)
			}
			left, right = both[:n], both[n:]
		} else {
			both = append(append(both[:0], left...), right...)
		}
		l, okL := v.ids[string(left)]
		r, okR := v.ids[string(right)]
		id, okB := v.ids[string(both)]
		if !okL || !okR || !okB || len(left) == 0 || len(right) == 0 {
			return fmt.Errorf("merge %d, %.60q + %.60q: the vocabulary has not both and what they make", rank, m.left, m.right)
		}
		if err := v.merges.add(l, r, int32(rank), id); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		if v.flags[l]&flagByte != 0 || v.flags[r]&flagByte != 0 {
			cuttable = false // a joint between bytes is not one between characters
		}
		if cuttable {
			joints.add(string(left), string(right))
		}
	}
	if cuttable {
		v.joints = joints
	}
	return nil
}

// addTokens registers the added tokens.
func (t *Tokenizer) addTokens(tokens []hfAddedToken, limit int) error {
	for _, a := range tokens {
		if a.Content == "" {
			return fmt.Errorf("id %d has no content", a.ID)
		}
		if err := t.addToken(a, limit); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tokenizer) addToken(a hfAddedToken, limit int) error {
	v := t.vocab
	piece := a.Content
	if !v.byteLevel && !a.Special {
		piece = unmark(piece)
	}
	if id, ok := v.ids[a.Content]; ok && !v.byteLevel && int64(id) != a.ID {
		return fmt.Errorf("%.60q has id %d here and %d in the vocabulary", a.Content, a.ID, id)
	}
	if raw, ok := appendBytes(nil, []byte(a.Content)); ok && v.byteLevel {
		if id, ok := v.ids[string(raw)]; ok && int64(id) != a.ID {
			return fmt.Errorf("%.60q has id %d here and %d in the vocabulary", a.Content, a.ID, id)
		}
	}
	known := a.ID >= 0 && a.ID < int64(len(v.pieces)) && v.flags[a.ID] != 0
	switch {
	case !known:
		if err := v.set(a.ID, piece, 0, limit); err != nil {
			return err
		}
	case !t.spells(int32(a.ID), a.Content):
		return fmt.Errorf("id %d is %.60q here and %.60q in the vocabulary", a.ID, a.Content, v.pieces[a.ID])
	case v.flags[a.ID]&flagAdded != 0:
		return fmt.Errorf("id %d is listed twice", a.ID)
	}
	v.pieces[a.ID] = piece
	v.flags[a.ID] |= flagAdded
	if a.Special {
		v.flags[a.ID] |= flagSpecial
	}
	tok := addedToken{
		id: int32(a.ID), content: a.Content, special: a.Special, normalized: a.Normalized,
		lstrip: a.LStrip, rstrip: a.RStrip, singleWord: a.SingleWord,
	}
	if !a.Normalized {
		t.raw.add(tok, a.Content)
		return nil
	}
	content := a.Content
	for _, n := range t.normalizers {
		content = n(content)
	}
	t.normalized.add(tok, content)
	return nil
}

// spells reports whether the vocabulary's token id is written as content.
func (t *Tokenizer) spells(id int32, content string) bool {
	v := t.vocab
	if got, ok := v.ids[content]; ok && got == id || v.pieces[id] == content {
		return true
	}
	if !v.byteLevel {
		return false
	}
	raw, ok := appendBytes(nil, []byte(content))
	return ok && string(raw) == v.pieces[id]
}
