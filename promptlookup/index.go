package promptlookup

import "slices"

// Index is a suffix automaton over a growing sequence of tokens, with the
// number of times each token followed each context.
//
// Appending a token takes amortized constant time: the classical online
// construction (Blumer et al., "The smallest automaton recognizing the subwords
// of a text", 1985), plus crediting the token to the contexts it followed. A
// token ends as many contexts as the path of suffix links is long, a handful in
// real text; only text that repeats itself with a short period has many, so
// credit stops after creditDepth contexts, the longest first.
//
// A hash table per state, or sorting occurrences when asked, were the
// alternatives; both make the cost depend on the text.
type Index struct {
	text   []int32
	states []state
	edges  []edge
	table  []int32 // open addressing: edge + 1, 0 is free
	last   int32
	depth  int // creditDepth, or more in tests
}

// creditDepth bounds the contexts one token is credited to.
const creditDepth = 32

// state is a set of contexts that end at the same positions of the text.
type state struct {
	length int32 // of its longest context
	link   int32 // the state of the longest suffix that ends at more positions
	edges  int32 // list of its edges, −1 for none
	best   int32 // edge that followed most often, latest among equals
}

// edge is a token that followed a state's contexts.
type edge struct {
	from, to int32
	token    int32
	count    int32 // how often it followed
	next     int32 // in the state's list
}

const none = -1

// NewIndex is an empty index.
func NewIndex() *Index {
	return &Index{
		states: []state{{link: none, edges: none, best: none}},
		table:  make([]int32, 64),
		depth:  creditDepth,
	}
}

// Len is the number of tokens appended.
func (x *Index) Len() int { return len(x.text) }

// At is the token at position i.
func (x *Index) At(i int) int32 { return x.text[i] }

// Append adds tokens to the text.
func (x *Index) Append(tokens ...int32) {
	for _, t := range tokens {
		x.append(t)
	}
}

func (x *Index) append(token int32) {
	x.text = push(x.text, token)
	cur := x.newState(x.states[x.last].length+1, none)
	p := x.last
	x.last = cur
	for ; p != none; p = x.states[p].link {
		if x.find(p, token) != none {
			break
		}
		x.credit(p, x.addEdge(p, cur, token, 0))
	}
	if p == none {
		x.states[cur].link = 0
		return
	}
	// The contexts from p on were followed by token before.
	seen := p
	q := x.edges[x.find(p, token)].to
	if x.states[p].length+1 == x.states[q].length {
		x.states[cur].link = q
	} else {
		clone := x.clone(q, x.states[p].length+1)
		for ; p != none; p = x.states[p].link {
			e := x.find(p, token)
			if e == none || x.edges[e].to != q {
				break
			}
			x.edges[e].to = clone
		}
		x.states[q].link, x.states[cur].link = clone, clone
	}
	for n := 0; seen != none && n < x.depth; n++ {
		x.credit(seen, x.find(seen, token))
		seen = x.states[seen].link
	}
}

// credit counts one more occurrence of an edge. The edge just taken is the
// latest, so it wins a tie.
func (x *Index) credit(s, e int32) {
	x.edges[e].count++
	if b := x.states[s].best; b == none || x.edges[e].count >= x.edges[b].count {
		x.states[s].best = e
	}
}

// push appends, and doubles the memory when it is full: the index grows by a token
// a round, in which little else happens.
func push[T any](s []T, v T) []T {
	if len(s) == cap(s) {
		s = slices.Grow(s, len(s)+64)
	}
	return append(s, v)
}

func (x *Index) newState(length, link int32) int32 {
	x.states = push(x.states, state{length: length, link: link, edges: none, best: none})
	return int32(len(x.states) - 1)
}

// clone splits off the contexts of q up to the given length.
func (x *Index) clone(q, length int32) int32 {
	c := x.newState(length, x.states[q].link)
	best := x.states[q].best
	for e := x.states[q].edges; e != none; e = x.edges[e].next {
		n := x.addEdge(c, x.edges[e].to, x.edges[e].token, x.edges[e].count)
		if e == best {
			x.states[c].best = n
		}
	}
	return c
}

// Match is a suffix of the text, perhaps extended by proposals, that occurred
// earlier and was followed by something.
type Match struct {
	state  int32
	length int32
}

// Len is the number of tokens matched.
func (m Match) Len() int { return int(m.length) }

// Match is the longest suffix of the text that also ends earlier in it; its
// length is 0 when the last token is new.
func (x *Index) Match() Match {
	if x.last == 0 {
		return Match{}
	}
	// The suffix link leads to the longest suffix that ends at more positions
	// than the end of the text.
	s := x.states[x.last].link
	return Match{s, x.states[s].length}
}

// Next is the token that followed m most often in the text, the latest of
// several that followed equally often, and the match extended by it. When
// nothing followed m, which happens only to a match that Next extended up to
// the end of the text, shorter suffixes of it are tried down to minimum tokens;
// ok is false when none is left.
func (x *Index) Next(m Match, minimum int) (token int32, next Match, ok bool) {
	for {
		if int(m.length) < max(minimum, 1) {
			return 0, Match{}, false
		}
		if b := x.states[m.state].best; b != none {
			e := x.edges[b]
			return e.token, Match{e.to, m.length + 1}, true
		}
		m.state = x.states[m.state].link
		m.length = x.states[m.state].length
	}
}

// Clone copies the index.
func (x *Index) Clone() *Index {
	return &Index{
		text: slices.Clone(x.text), states: slices.Clone(x.states), edges: slices.Clone(x.edges),
		table: slices.Clone(x.table), last: x.last, depth: x.depth,
	}
}

// hash mixes a state and a token (the finalizer of SplitMix64).
func hash(from, token int32) uint64 {
	h := uint64(uint32(from))<<32 | uint64(uint32(token))
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// find returns the edge of a state for a token, or none.
func (x *Index) find(from, token int32) int32 {
	// Most states have one edge or two.
	e := x.states[from].edges
	for range 2 {
		if e == none {
			return none
		}
		if x.edges[e].token == token {
			return e
		}
		e = x.edges[e].next
	}
	if e == none {
		return none
	}
	mask := uint64(len(x.table) - 1)
	for i := hash(from, token) & mask; x.table[i] != 0; i = (i + 1) & mask {
		e := x.table[i] - 1
		if x.edges[e].from == from && x.edges[e].token == token {
			return e
		}
	}
	return none
}

func (x *Index) addEdge(from, to, token, count int32) int32 {
	e := int32(len(x.edges))
	x.edges = push(x.edges, edge{from, to, token, count, x.states[from].edges})
	x.states[from].edges = e
	if 2*len(x.edges) > len(x.table) {
		x.table = make([]int32, 2*len(x.table))
		for i := range x.edges {
			x.insert(int32(i))
		}
		return e
	}
	x.insert(e)
	return e
}

func (x *Index) insert(e int32) {
	mask := uint64(len(x.table) - 1)
	i := hash(x.edges[e].from, x.edges[e].token) & mask
	for x.table[i] != 0 {
		i = (i + 1) & mask
	}
	x.table[i] = e + 1
}
