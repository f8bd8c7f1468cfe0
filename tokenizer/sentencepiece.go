package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// spaceMark is how SentencePiece vocabularies write a space.
const spaceMark = "▁"

func unmark(piece string) string { return strings.ReplaceAll(piece, spaceMark, " ") }

// byteToken reports whether a piece is spelled as a single byte, <0x00> to
// <0xFF>, and which.
func byteToken(piece string) (byte, bool) {
	if len(piece) != 6 || piece[:3] != "<0x" || piece[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(piece[3]), hexDigit(piece[4])
	return hi<<4 | lo, hi < 16 && lo < 16
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xFF
}

// Piece types, as sentencepiece_model.proto and GGUF number them.
const (
	pieceNormal      = 1
	pieceUnknown     = 2
	pieceControl     = 3
	pieceUserDefined = 4
	pieceUnused      = 5
	pieceByte        = 6
)

// scoredVocabulary is a SentencePiece BPE vocabulary as tokenizer.model and
// GGUF hold it: no list of merges, but a score per piece; the adjacent pair
// whose union has the highest score merges first.
type scoredVocabulary struct {
	pieces []string
	scores []float64
	types  []int64

	dummyPrefix      bool // a space goes in front of the text
	removeExtra      bool // runs of spaces become one, those at the ends none
	userAfterNormal  bool // user-defined pieces are looked for after normalisation
	unk, bos, eos    int64
	addBOS, addEOS   bool
	unusedIsRejected bool
}

// maxScoredPiece is the longest piece that may take part in merges, in bytes:
// all its cuts are tried.
const maxScoredPiece = 1024

// build makes a tokenizer. Every id it holds is checked.
func (s *scoredVocabulary) build(source string) (*Tokenizer, error) {
	n := len(s.pieces)
	if n == 0 {
		return nil, errors.New("the vocabulary is empty")
	}
	if len(s.scores) != n || len(s.types) != n {
		return nil, fmt.Errorf("%d pieces, %d scores, %d types: want as many of each", n, len(s.scores), len(s.types))
	}
	t := &Tokenizer{
		source: source, bos: -1, raw: newAddedTrie(), normalized: newAddedTrie(),
		pre: &preTokenizer{name: "none"}, stripSpace: s.dummyPrefix || s.removeExtra,
	}
	t.vocab = newVocabulary(false, n)
	t.vocab.fuseUnk = true
	t.kind = kindOf(t.vocab)
	if s.removeExtra {
		t.normalizers = append(t.normalizers, collapseSpaces)
	}
	if s.dummyPrefix {
		t.normalizers = append(t.normalizers, prepend(spaceMark))
	}
	t.normalizers = append(t.normalizers, replace(" ", spaceMark))
	if s.removeExtra {
		t.normalizers = append(t.normalizers, func(s string) string { return strings.TrimRight(s, spaceMark) })
	}
	for id, piece := range s.pieces {
		if err := s.addPiece(t, int64(id), piece); err != nil {
			return nil, fmt.Errorf("piece %d: %w", id, err)
		}
	}
	if err := s.addMerges(t.vocab); err != nil {
		return nil, err
	}
	return t, s.addSpecials(t)
}

func (s *scoredVocabulary) addPiece(t *Tokenizer, id int64, piece string) error {
	v, n := t.vocab, len(s.pieces)
	if !utf8.ValidString(piece) || piece == "" {
		return fmt.Errorf("%.60q is empty or not valid UTF-8", piece)
	}
	if math.IsNaN(s.scores[id]) {
		return fmt.Errorf("the score of %.60q is not a number", piece)
	}
	switch s.types[id] {
	case pieceNormal:
		if len(piece) > maxScoredPiece {
			return fmt.Errorf("%.60q is %d bytes long, more than %d", piece, len(piece), maxScoredPiece)
		}
		if err := v.set(id, unmark(piece), 0, n); err != nil {
			return err
		}
		return v.index(id, piece)
	case pieceByte:
		b, ok := byteToken(piece)
		if !ok || v.byteIDs[b] >= 0 {
			return fmt.Errorf("%.60q is typed as a byte: want <0x00> to <0xFF>, each once", piece)
		}
		v.byteIDs[b] = int32(id)
		return v.set(id, string([]byte{b}), flagByte, n)
	case pieceUnknown, pieceControl:
		return t.addToken(hfAddedToken{ID: id, Content: piece, Special: true}, n)
	case pieceUserDefined:
		return s.addUserDefined(t, id, piece)
	case pieceUnused:
		if s.unusedIsRejected {
			return fmt.Errorf("%.60q is typed as unused, which is not supported", piece)
		}
		return v.set(id, unmark(piece), 0, n)
	}
	return fmt.Errorf("%.60q has type %d: want 1 to 6", piece, s.types[id])
}

// addUserDefined registers a piece that is found in the text before words are.
// The two formats differ in which text: SentencePiece looks after spaces have
// become marks, GGUF before.
func (s *scoredVocabulary) addUserDefined(t *Tokenizer, id int64, piece string) error {
	if !s.userAfterNormal {
		return t.addToken(hfAddedToken{ID: id, Content: piece}, len(s.pieces))
	}
	if err := t.vocab.set(id, unmark(piece), flagAdded, len(s.pieces)); err != nil {
		return err
	}
	t.normalized.add(addedToken{id: int32(id), content: piece, normalized: true}, piece)
	return nil
}

// addMerges lists every way to cut a normal piece into two: the merges that
// SentencePiece finds by looking up the text of two neighbours.
func (s *scoredVocabulary) addMerges(v *vocabulary) error {
	order := make([]int32, 0, len(v.ids))
	for id := range s.pieces {
		if s.types[id] == pieceNormal {
			order = append(order, int32(id))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(s.scores[b], s.scores[a]) })
	type cut struct{ left, right, rank, id int32 }
	var cuts []cut
	v.joints = &jointSet{}
	rank := int32(-1)
	for i, id := range order {
		if i == 0 || s.scores[id] != s.scores[order[i-1]] {
			rank++ // equal scores are equally good: then the leftmost merges first
		}
		piece := s.pieces[id]
		for k := range piece {
			if k == 0 {
				continue
			}
			left, okL := v.ids[piece[:k]]
			right, okR := v.ids[piece[k:]]
			if okL && okR {
				cuts = append(cuts, cut{left, right, rank, id})
				v.joints.add(piece[:k], piece[k:])
			}
		}
	}
	v.merges = newMergeTable(len(cuts))
	for _, c := range cuts {
		if err := v.merges.add(c.left, c.right, c.rank, c.id); err != nil {
			return err
		}
	}
	return nil
}

// addSpecials sets what the ids of special tokens decide.
func (s *scoredVocabulary) addSpecials(t *Tokenizer) error {
	for _, sp := range []struct {
		name string
		id   int64
	}{{"unknown", s.unk}, {"begin", s.bos}, {"end", s.eos}} {
		if sp.id < -1 || sp.id >= int64(len(s.pieces)) {
			return fmt.Errorf("the %s token is %d, out of range for %d tokens", sp.name, sp.id, len(s.pieces))
		}
	}
	t.vocab.unk, t.bos = int32(s.unk), int32(s.bos)
	if s.eos >= 0 {
		t.addEOS(int32(s.eos))
	}
	if s.addBOS && s.bos >= 0 {
		t.prefix = []int32{int32(s.bos)}
	}
	if s.addEOS && s.eos >= 0 {
		t.suffix = []int32{int32(s.eos)}
	}
	return nil
}

func collapseSpaces(s string) string {
	s = strings.TrimLeft(s, " ")
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

// fromSentencePiece reads tokenizer.model (sentencepiece_model.proto).
func fromSentencePiece(data []byte, cfg *config) (*Tokenizer, error) {
	if looksLikeTiktoken(data) {
		return nil, errors.New("this is a tiktoken file (base64 and ranks): use the tokenizer.json of the same model")
	}
	s, err := parseSentencePiece(data)
	if err != nil {
		return nil, err
	}
	s.addBOS = cfg.AddBOS == nil || *cfg.AddBOS
	s.addEOS = cfg.AddEOS != nil && *cfg.AddEOS
	t, err := s.build("tokenizer.model")
	if err != nil {
		return nil, err
	}
	for _, a := range cfg.added {
		if a.ID >= 0 && a.ID < int64(len(s.pieces)) {
			continue // a piece already
		}
		if err := t.addToken(a, len(s.pieces)+len(cfg.added)); err != nil {
			return nil, fmt.Errorf("added_tokens_decoder: %w", err)
		}
	}
	return t, nil
}

func looksLikeTiktoken(data []byte) bool {
	for i, c := range data[:min(len(data), 200)] {
		switch {
		case c == ' ':
			return i > 0
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return false
}

// parseSentencePiece reads the message; fields it does not name have no say in
// what BPE inference does.
func parseSentencePiece(data []byte) (*scoredVocabulary, error) {
	s := &scoredVocabulary{
		dummyPrefix: true, removeExtra: true, userAfterNormal: true,
		unk: 0, bos: 1, eos: 2, unusedIsRejected: true, // the proto's defaults
	}
	modelType := uint64(1)
	var seen [4]bool
	err := eachField(data, func(f protoField) error {
		switch f.number {
		case 1, 2, 3:
			if err := f.want(2); err != nil {
				return err
			}
			seen[f.number] = true
		}
		switch f.number {
		case 1:
			return s.parsePiece(f.bytes)
		case 2:
			return s.parseTrainer(f.bytes, &modelType)
		case 3:
			return s.parseNormalizer(f.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, name := range []string{1: "pieces", 2: "trainer_spec", 3: "normalizer_spec"} {
		if i > 0 && !seen[i] {
			return nil, fmt.Errorf("no %s: the file is cut off, or no SentencePiece model", name)
		}
	}
	if modelType != 2 {
		names := map[uint64]string{1: "Unigram", 3: "word", 4: "character"}
		return nil, fmt.Errorf("model_type is %d (%s): only 2 (BPE) is supported", modelType, names[modelType])
	}
	return s, nil
}

func (s *scoredVocabulary) parsePiece(b []byte) error {
	id := len(s.pieces)
	s.pieces, s.scores, s.types = append(s.pieces, ""), append(s.scores, 0), append(s.types, pieceNormal)
	err := eachField(b, func(f protoField) error {
		switch f.number {
		case 1:
			s.pieces[id] = string(f.bytes)
			return f.want(2)
		case 2:
			s.scores[id] = float64(math.Float32frombits(uint32(f.varint)))
			return f.want(5)
		case 3:
			s.types[id] = int64(f.varint)
			return f.want(0)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("piece %d: %w", id, err)
	}
	return nil
}

func (s *scoredVocabulary) parseTrainer(b []byte, modelType *uint64) error {
	err := eachField(b, func(f protoField) error {
		switch f.number {
		case 3:
			*modelType = f.varint
		case 24:
			if f.varint != 0 {
				return errors.New("treat_whitespace_as_suffix is not supported")
			}
		case 40:
			s.unk = int64(int32(f.varint))
		case 41:
			s.bos = int64(int32(f.varint))
		case 42:
			s.eos = int64(int32(f.varint))
		default:
			return nil
		}
		return f.want(0)
	})
	if err != nil {
		return fmt.Errorf("trainer_spec: %w", err)
	}
	return nil
}

func (s *scoredVocabulary) parseNormalizer(b []byte) error {
	name := ""
	err := eachField(b, func(f protoField) error {
		switch f.number {
		case 1:
			name = string(f.bytes)
		case 2:
			if len(f.bytes) > 0 {
				return fmt.Errorf("the normalization rule %q is not supported: only identity", name)
			}
		case 3:
			s.dummyPrefix = f.varint != 0
		case 4:
			s.removeExtra = f.varint != 0
		case 5:
			if f.varint == 0 {
				return errors.New("escape_whitespaces off is not supported")
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("normalizer_spec: %w", err)
	}
	return nil
}
