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
