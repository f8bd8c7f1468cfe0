package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// maxPiece is the longest piece accepted, in bytes. Real ones stay under 600;
// the limit keeps work that grows with a piece's length in bounds.
const maxPiece = 4096

// idSlack is how many ids a file may leave unused. It bounds what a single
// huge id could make us allocate.
const idSlack = 1 << 16

// vocabulary is the tokens of a model: what each id stands for, and the merges
// that make ids of words.
type vocabulary struct {
	byteLevel bool // words start as bytes; else as characters, with bytes for unknown ones
	pieces    []string
	flags     []tokenFlags
	ids       map[string]int32 // piece → id, of what words can be made of
	byteIDs   [256]int32       // the token of a single byte, or −1
	merges    *mergeTable
	joints    *jointSet // nil: words cannot be cut further

	unk          int32 // −1: none
	fuseUnk      bool
	ignoreMerges bool
	cache        *wordCache
}

type tokenFlags uint8

const (
	flagPresent tokenFlags = 1 << iota
	flagSpecial
	flagAdded
	flagByte
)

func newVocabulary(byteLevel bool, entries int) *vocabulary {
	v := &vocabulary{
		byteLevel: byteLevel,
		pieces:    make([]string, 0, entries),
		flags:     make([]tokenFlags, 0, entries),
		ids:       make(map[string]int32, entries),
		unk:       -1,
		cache:     newWordCache(),
	}
	for i := range v.byteIDs {
		v.byteIDs[i] = -1
	}
	return v
}

// set records what an id stands for. limit is the number of entries the file
// holds, which bounds the ids.
func (v *vocabulary) set(id int64, piece string, flags tokenFlags, limit int) error {
	if id < 0 || id >= int64(limit)+idSlack {
		return fmt.Errorf("token %.60q has id %d, out of range for a vocabulary of %d", piece, id, limit)
	}
	if len(piece) > maxPiece {
		return fmt.Errorf("token %d is %d bytes long, more than %d", id, len(piece), maxPiece)
	}
	for int64(len(v.pieces)) <= id {
		v.pieces = append(v.pieces, "")
		v.flags = append(v.flags, 0)
	}
	if v.flags[id] != 0 {
		return fmt.Errorf("id %d is used twice, by %.60q and %.60q", id, v.pieces[id], piece)
	}
	v.pieces[id], v.flags[id] = piece, flags|flagPresent
	return nil
}

// index lets words be made of the piece with this id.
func (v *vocabulary) index(id int64, piece string) error {
	if other, ok := v.ids[piece]; ok {
		return fmt.Errorf("token %.60q is listed twice, with ids %d and %d", piece, other, id)
	}
	v.ids[piece] = int32(id)
	return nil
}

// word appends the ids of one word.
func (v *vocabulary) word(out []int32, w string) []int32 {
	if v.joints == nil {
		return v.chunk(out, w)
	}
	start := len(out)
	for len(w) > 0 {
		n := v.joints.cut(w)
		at := len(out)
		out = v.chunk(out, w[:n])
		if v.fuseUnk && at > start && len(out) > at && out[at] == v.unk && out[at-1] == v.unk {
			out = append(out[:at], out[at+1:]...)
		}
		w = w[n:]
	}
	return out
}

// chunk appends the ids of w, which no merge can tie to its surroundings.
func (v *vocabulary) chunk(out []int32, w string) []int32 {
	if ids, ok := v.cache.get(w); ok {
		return append(out, ids...)
	}
	start := len(out)
	id, whole := int32(-1), false
	if v.ignoreMerges {
		id, whole = v.ids[w]
	}
	if whole {
		out = append(out, id)
	} else {
		out = v.symbols(out, w)
		out = out[:start+len(v.merges.merge(out[start:]))]
	}
	v.cache.put(w, out[start:])
	return out
}

// symbols appends the ids that w consists of before any merge. What has no
// token, where the vocabulary has no unknown token either, is left out, as the
// reference does: SmolLM2 has no token for some control bytes.
func (v *vocabulary) symbols(out []int32, w string) []int32 {
	if v.byteLevel {
		for i := 0; i < len(w); i++ {
			id := v.byteIDs[w[i]]
			if id < 0 {
				if id = v.unk; id < 0 {
					continue
				}
			}
			out = append(out, id)
		}
		return out
	}
	afterUnk := false
	for i := 0; i < len(w); {
		_, n := utf8.DecodeRuneInString(w[i:])
		c := w[i : i+n]
		i += n
		if id, ok := v.ids[c]; ok {
			out, afterUnk = append(out, id), false
			continue
		}
		if v.bytesOf(c) {
			for k := 0; k < len(c); k++ {
				out = append(out, v.byteIDs[c[k]])
			}
			afterUnk = false
			continue
		}
		if v.unk < 0 {
			continue
		}
		if !afterUnk || !v.fuseUnk {
			out = append(out, v.unk)
		}
		afterUnk = true
	}
	return out
}

func (v *vocabulary) bytesOf(c string) bool {
	for i := 0; i < len(c); i++ {
		if v.byteIDs[c[i]] < 0 {
			return false
		}
	}
	return true
}

// jointSet holds the pairs of adjacent characters that some merge joins. Where
// two characters are not in it, no merge can cross, so a long text may be cut
// there and its parts encoded alone, with the same result. It is a bit set over
// a hash: a false "yes" only costs a cut.
type jointSet struct {
	bits [1 << 14]uint64
}

func jointBit(a, b rune) (word int, bit uint64) {
	h := (uint64(uint32(a))<<32 | uint64(uint32(b))) * 0x9E3779B97F4A7C15 >> 44
	return int(h >> 6), 1 << (h & 63)
}

func (j *jointSet) add(left, right string) {
	a, _ := utf8.DecodeLastRuneInString(left)
	b, _ := utf8.DecodeRuneInString(right)
	w, bit := jointBit(a, b)
	j.bits[w] |= bit
}

// cut returns the length of the first part of s that stands alone.
func (j *jointSet) cut(s string) int {
	a, n := utf8.DecodeRuneInString(s)
	for n < len(s) {
		b, w := utf8.DecodeRuneInString(s[n:])
		if i, bit := jointBit(a, b); j.bits[i]&bit == 0 {
			return n
		}
		a, n = b, n+w
	}
	return n
}
