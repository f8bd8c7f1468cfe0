package kvcache

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"

	"surmise/compute"
)

// Key names a full page by its content: the SHA-256 of the key of the page
// before it (zeros for the first) and its 64 tokens in little-endian order. By
// the numeric canon equal keys have equal keys and values, to the bit.
type Key [sha256.Size]byte

func (k Key) next(tokens []int32) Key {
	var buf [sha256.Size + 4*compute.PageSize]byte
	copy(buf[:], k[:])
	for i, t := range tokens[:compute.PageSize] {
		binary.LittleEndian.PutUint32(buf[sha256.Size+4*i:], uint32(t))
	}
	return sha256.Sum256(buf[:])
}

// node is a published page. It holds its pages in every store; a sliding
// group's page may be missing (−1).
type node struct {
	key   Key
	pages []int32 // one per store
	place *list.Element
}

// Publish offers the sequence's full pages to later prompts with the same
// beginning. Where the same content is published already, the sequence gives
// up its own copy for the published one.
func (s *Seq) Publish() {
	if s.closed {
		return
	}
	full := len(s.tokens) / compute.PageSize
	for i := range full {
		n := s.c.index[s.key(i)]
		if n == nil {
			n = &node{key: s.key(i), pages: make([]int32, len(s.tables))}
			for g := range s.tables {
				n.pages[g] = s.tables[g].pages[i]
				s.c.hold(g, n.pages[g])
			}
			n.place = s.c.recent.PushFront(n)
			s.c.index[n.key] = n
			continue
		}
		s.share(i, n)
	}
	for i := full - 1; i >= 0; i-- {
		s.c.recent.MoveToFront(s.c.index[s.keys[i]].place)
	}
}

// key is the content key of full page i, kept as long as the page is.
func (s *Seq) key(i int) Key {
	for j := len(s.keys); j <= i; j++ {
		var before Key
		if j > 0 {
			before = s.keys[j-1]
		}
		s.keys = append(s.keys, before.next(s.tokens[j*compute.PageSize:]))
	}
	return s.keys[i]
}

// share makes page i of the sequence and published page n one and the same in
// every store, and completes n with what it lacks.
func (s *Seq) share(i int, n *node) {
	for g := range s.tables {
		own := &s.tables[g].pages[i]
		switch {
		case *own < 0 || *own == n.pages[g]:
		case n.pages[g] < 0:
			n.pages[g] = *own
			s.c.hold(g, *own)
		default:
			if g == s.c.names() {
				s.c.moveStates(n.pages[g], *own)
			}
			s.c.hold(g, n.pages[g])
			s.c.drop(g, *own)
			*own = n.pages[g]
		}
	}
}

// Match starts a sequence from the longest published beginning of tokens, at
// most len(tokens)−1 of them, so that there is always one left to compute
// logits from. Without a match the sequence is empty.
func (c *Cache) Match(tokens []int32) *Seq {
	s := c.Open()
	tokens = tokens[:min(len(tokens), c.cfg.Context)]
	var chain []*node
	for i := 0; (i+1)*compute.PageSize <= len(tokens); i++ {
		n := c.index[s.keyOf(tokens, i)]
		if n == nil {
			break
		}
		chain = append(chain, n)
	}
	for len(chain) > 0 && !c.usable(chain) {
		chain = chain[:len(chain)-1]
	}
	s.keys = s.keys[:len(chain)]
	s.tokens = append(s.tokens, tokens[:len(chain)*compute.PageSize]...)
	for g := range s.tables {
		t := &s.tables[g]
		t.past = c.firstKept(g, len(s.tokens))
		for i, n := range chain {
			if i < t.past {
				t.pages = append(t.pages, -1)
				continue
			}
			c.hold(g, n.pages[g])
			t.pages = append(t.pages, n.pages[g])
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		c.recent.MoveToFront(chain[i].place)
	}
	if len(s.tokens) > 0 && len(s.tokens) == len(tokens) {
		s.cut(len(tokens) - 1)
	}
	if len(s.tokens) > 0 {
		c.hits++
		c.hitTokens += int64(len(s.tokens))
	}
	return s
}

// keyOf extends the chain of keys over tokens that are not the sequence's yet.
func (s *Seq) keyOf(tokens []int32, i int) Key {
	var before Key
	if i > 0 {
		before = s.keys[i-1]
	}
	s.keys = append(s.keys, before.next(tokens[i*compute.PageSize:]))
	return s.keys[i]
}

// usable tells whether a sequence can start behind the chain: sliding groups
// must still have all that it, or a cut of Slack, can see.
func (c *Cache) usable(chain []*node) bool {
	for g := range c.cfg.Groups {
		for _, n := range chain[c.firstKept(g, len(chain)*compute.PageSize):] {
			if n.pages[g] < 0 {
				return false
			}
		}
	}
	return true
}

// firstKept is the first page that a sequence of n positions needs in store g.
func (c *Cache) firstKept(g, n int) int {
	if c.stores[g].window == 0 {
		return 0
	}
	return firstPage(n, c.stores[g].window+Slack)
}

// evict gives up the least recently used published page that no sequence
// holds or, when there is none, the sliding groups' share of one that running
// sequences have left behind. It reports whether any memory came free.
//
// A page nobody holds has no held continuation, since a sequence holds all
// pages before its own last; and continuations are nearer the back than what
// they continue. So the page given up is always the end of its chain.
func (c *Cache) evict() bool {
	names := c.names()
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		n := e.Value.(*node)
		if c.stores[names].refs[n.pages[names]] > 1 {
			continue
		}
		for g, p := range n.pages {
			c.drop(g, p)
		}
		delete(c.index, n.key)
		c.recent.Remove(e)
		c.evicted++
		return true
	}
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		n, before := e.Value.(*node), c.used
		for g := range c.cfg.Groups {
			if p := n.pages[g]; p >= 0 && c.stores[g].window > 0 && c.stores[g].refs[p] == 1 {
				c.drop(g, p)
				n.pages[g] = -1
			}
		}
		if c.used < before {
			return true
		}
	}
	return false
}
