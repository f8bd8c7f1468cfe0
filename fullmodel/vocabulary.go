package fullmodel

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// Pieces is what a vocabulary is compared by: the bytes of every token. It is
// implemented by *tokenizer.Tokenizer.
type Pieces interface {
	VocabSize() int
	Piece(id int32) []byte
	IsSpecial(id int32) bool
}

// vocabulary maps token ids of the target to those of the draft model with the
// same text. Sizes are not compared: checkpoints pad their vocabularies.
type vocabulary struct {
	same     bool    // every token the two share has the same id
	toDraft  []int32 // by target id; −1 where the draft model has no such token
	toTarget []int32 // by draft id; −1 likewise
}

// shownDifferences is how many tokens an error lists.
const shownDifferences = 5

// mapVocabulary pairs the tokens of two vocabularies. A special token of the
// target may be missing in the draft model: a sequence that uses it is not
// drafted from there on. An ordinary one that is missing means that the two
// were trained with different tokenizers, which is an error.
func mapVocabulary(target, draft Pieces, targetSize, draftSize int) (*vocabulary, error) {
	if n := draft.VocabSize(); n > draftSize {
		return nil, fmt.Errorf("the draft model's tokenizer has %d tokens, but the model only %d: want the tokenizer it was trained with", n, draftSize)
	}
	v := &vocabulary{same: true, toDraft: make([]int32, targetSize), toTarget: make([]int32, draftSize)}
	byText := index(draft, draftSize)
	for i := range v.toTarget {
		v.toTarget[i] = -1
	}
	var missing []string
	count := 0
	for id := range v.toDraft {
		t := int32(id)
		v.toDraft[id] = -1
		if id >= target.VocabSize() || len(target.Piece(t)) == 0 {
			continue
		}
		d, ok := counterpart(target, draft, t, draftSize, byText)
		if !ok {
			if !target.IsSpecial(t) {
				if count++; count <= shownDifferences {
					missing = append(missing, fmt.Sprintf("%d %q", t, target.Piece(t)))
				}
			}
			continue
		}
		v.toDraft[id], v.toTarget[d] = d, t
		v.same = v.same && d == t
	}
	if count > 0 {
		if count > len(missing) {
			missing = append(missing, "…")
		}
		return nil, fmt.Errorf("the draft model's vocabulary lacks %d of the target's tokens (%s): "+
			"want a draft model with the target's tokenizer", count, strings.Join(missing, ", "))
	}
	return v, nil
}

// key tells special tokens from ordinary ones of the same text.
func key(p Pieces, id int32) string {
	if p.IsSpecial(id) {
		return "s" + string(p.Piece(id))
	}
	return "o" + string(p.Piece(id))
}

func index(p Pieces, size int) map[string]int32 {
	m := make(map[string]int32, min(size, p.VocabSize()))
	for id := int32(0); int(id) < min(size, p.VocabSize()); id++ {
		if k := key(p, id); len(k) > 1 {
			if _, taken := m[k]; !taken {
				m[k] = id
			}
		}
	}
	return m
}

// counterpart finds the draft model's token for target token t: the same id
// where the text agrees, else the lowest id with that text.
func counterpart(target, draft Pieces, t int32, draftSize int, byText map[string]int32) (int32, bool) {
	if int(t) < min(draftSize, draft.VocabSize()) && draft.IsSpecial(t) == target.IsSpecial(t) &&
		bytes.Equal(draft.Piece(t), target.Piece(t)) {
		return t, true
	}
	d, ok := byText[key(target, t)]
	return d, ok
}

// logits puts the draft model's scores in the target's order; a token the draft
// model lacks is impossible. The result is dst or z itself.
func (v *vocabulary) logits(dst, z []float32) []float32 {
	if v.same && len(z) == len(v.toDraft) {
		return z
	}
	for i := range dst {
		if d := v.toDraft[i]; d >= 0 {
			dst[i] = z[d]
		} else {
			dst[i] = float32(math.Inf(-1))
		}
	}
	return dst
}
