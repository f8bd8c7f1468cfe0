package tokenizer

import (
	"bytes"
	"fmt"
)

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
