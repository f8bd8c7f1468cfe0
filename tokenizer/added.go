package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token found in the text itself before words are made of it.
type addedToken struct {
	id         int32
	content    string
	special    bool // control tokens: only when the caller asks for them
	normalized bool // looked for in the normalised text rather than the raw one
	lstrip     bool // swallows spaces before it
	rstrip     bool // swallows spaces after it
	singleWord bool // only where no word character touches it
}

// addedTrie finds the longest added token at a position. Nodes are numbered;
// 0 is the root and also "no such child".
type addedTrie struct {
	tokens []addedToken
	first  [256]int32       // children of the root, the only ones looked at for most bytes
	edges  map[uint64]int32 // node<<8 | byte → child
	ends   []int32          // node → index into tokens, or −1
}

func newAddedTrie() *addedTrie {
	return &addedTrie{edges: map[uint64]int32{}, ends: []int32{-1}}
}

func (t *addedTrie) add(tok addedToken, content string) {
	node := int32(0)
	for i := 0; i < len(content); i++ {
		child := t.child(node, content[i])
		if child == 0 {
			child = int32(len(t.ends))
			t.ends = append(t.ends, -1)
			if node == 0 {
				t.first[content[i]] = child
			} else {
				t.edges[uint64(node)<<8|uint64(content[i])] = child
			}
		}
		node = child
	}
	if t.ends[node] < 0 {
		t.ends[node] = int32(len(t.tokens))
		t.tokens = append(t.tokens, tok)
	}
}

func (t *addedTrie) child(node int32, b byte) int32 {
	if node == 0 {
		return t.first[b]
	}
	return t.edges[uint64(node)<<8|uint64(b)]
}

// longest returns the longest token at the start of s and its length, or nil.
func (t *addedTrie) longest(s string, special bool) (*addedToken, int) {
	var best *addedToken
	length := 0
	node := int32(0)
	for i := 0; i < len(s); i++ {
		if node = t.child(node, s[i]); node == 0 {
			break
		}
		if e := t.ends[node]; e >= 0 && (special || !t.tokens[e].special) {
			best, length = &t.tokens[e], i+1
		}
	}
	return best, length
}

// scan cuts s into added tokens and the text between them, leftmost and
// longest first, and calls token and text in order; text gets the offset of
// its part. Special tokens are found only if special is set.
func (t *addedTrie) scan(s string, special bool, token func(id int32), text func(part string, offset int)) {
	done := 0
	for i := 0; i < len(s) && len(t.tokens) > 0; {
		if t.first[s[i]] == 0 {
			i++
			continue
		}
		tok, n := t.longest(s[i:], special)
		if tok == nil {
			i++
			continue
		}
		start, stop := i, i+n
		i = stop
		if tok.singleWord && (endsInWord(s[:start]) || startsWithWord(s[stop:])) {
			continue
		}
		if tok.lstrip {
			start = len(strings.TrimRightFunc(s[:start], unicode.IsSpace))
		}
		if tok.rstrip {
			stop = len(s) - len(strings.TrimLeftFunc(s[stop:], unicode.IsSpace))
		}
		if start > done {
			text(s[done:start], done)
		}
		token(tok.id)
		done = max(done, stop)
	}
	if done < len(s) {
		text(s[done:], done)
	}
}

func endsInWord(s string) bool {
	r, w := utf8.DecodeLastRuneInString(s)
	return w > 0 && isWordRune(r)
}

func startsWithWord(s string) bool {
	r, w := utf8.DecodeRuneInString(s)
	return w > 0 && isWordRune(r)
}

// isWordRune is \w.
func isWordRune(r rune) bool {
	return isLetter(r) || unicode.IsDigit(r) || isMark(r) || unicode.Is(unicode.Pc, r)
}
