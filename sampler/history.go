package sampler

// history is what the penalties remember of one sequence. It grows by accepted
// tokens only. What no active stage needs is not kept.
type history struct {
	// tokens are prompt and output; prev[i] is the position before i that holds
	// the same token, or −1.
	tokens []int32
	prev   []int32
	table  table
	dry    matcher
	ngram  matcher
}

// entry counts one token.
type entry struct {
	id     int32
	window int32 // occurrences in the repetition window
	output int32 // occurrences in the output
	last   int32 // its last position, or −1
}

// table maps token ids to entries: open addressing over a dense list, so that
// it is copied and walked in order of memory.
type table struct {
	entries []entry
	slots   []int32 // index of the entry plus one; a power of two long
}

func (t *table) at(id int32) *entry {
	if 2*(len(t.entries)+1) > len(t.slots) {
		t.grow()
	}
	mask := uint32(len(t.slots) - 1)
	h := hash(id) & mask
	for ; t.slots[h] != 0; h = (h + 1) & mask {
		if e := &t.entries[t.slots[h]-1]; e.id == id {
			return e
		}
	}
	t.entries = append(t.entries, entry{id: id, last: -1})
	t.slots[h] = int32(len(t.entries))
	return &t.entries[len(t.entries)-1]
}

func (t *table) grow() {
	n := max(64, 2*len(t.slots))
	t.slots = make([]int32, n)
	mask := uint32(n - 1)
	for i := range t.entries {
		h := hash(t.entries[i].id) & mask
		for t.slots[h] != 0 {
			h = (h + 1) & mask
		}
		t.slots[h] = int32(i + 1)
	}
}

func hash(id int32) uint32 {
	h := uint32(id) * 0x9E3779B1
	return h ^ h>>15
}

func (t *table) copyFrom(o *table) {
	t.entries = append(t.entries[:0], o.entries...)
	t.slots = append(t.slots[:0], o.slots...)
}

// match says that the n tokens up to position end equal the last n tokens.
type match struct{ end, n int32 }

// matcher follows every earlier occurrence of the sequence's suffix, the latest
// first. Appending a token extends those it fits and starts new ones.
type matcher struct {
	on     bool
	active []match
	spare  []match
}

// push updates the matches for the token just appended at position p.
// Occurrences before start are left out; a breaker leaves no match.
func (m *matcher) push(tokens, prev []int32, p, start int32, breaker bool) {
	next := m.spare[:0]
	if !breaker {
		old := m.active
		for i := prev[p]; i >= start; i = prev[i] {
			for len(old) > 0 && old[0].end >= i {
				old = old[1:]
			}
			n := int32(1)
			if len(old) > 0 && old[0].end == i-1 {
				n += old[0].n
			}
			next = append(next, match{i, n})
		}
	}
	m.active, m.spare = next, m.active
}

// rebuild finds the matches of tokens from scratch, in time linear in the
// window: the Z-algorithm over the reversed window. sinceBreaker is the number
// of tokens behind the last breaker; no match is longer.
func (m *matcher) rebuild(tokens []int32, start, sinceBreaker int32) {
	m.active = m.active[:0]
	n := int32(len(tokens))
	rev := func(i int32) int32 { return tokens[n-1-i] }
	size := n - start
	z := make([]int32, size)
	for i, l, r := int32(1), int32(0), int32(0); i < size; i++ {
		if i < r {
			z[i] = min(r-i, z[i-l])
		}
		for i+z[i] < size && rev(z[i]) == rev(i+z[i]) {
			z[i]++
		}
		if i+z[i] > r {
			l, r = i, i+z[i]
		}
		if k := min(z[i], sinceBreaker); k > 0 {
			m.active = append(m.active, match{n - 1 - i, k})
		}
	}
}

func (m *matcher) copyFrom(o *matcher) {
	m.on = o.on
	m.active = append(m.active[:0], o.active...)
}

// windowStart returns the first position of a window of n tokens (−1 all) that
// ends at length.
func windowStart(length, n int) int {
	if n < 0 || n > length {
		return 0
	}
	return length - n
}

// begin takes in the prompt.
func (h *history) begin(c *core, prompt []int32) {
	if !c.needPrompt {
		return
	}
	h.dry.on, h.ngram.on = c.dryOn, c.params.NoRepeatNgramSize > 1
	start := windowStart(len(prompt), c.params.PenaltyLastN)
	for i, t := range prompt {
		e := h.table.at(t)
		if i >= start && c.params.PenaltyLastN != 0 {
			e.window++
		}
		if c.needTokens {
			h.tokens, h.prev = append(h.tokens, t), append(h.prev, e.last)
		}
		e.last = int32(i)
	}
	if h.dry.on {
		since := int32(0)
		for since < int32(len(prompt)) && !c.breaks(prompt[:int32(len(prompt))-since]) {
			since++
		}
		h.dry.rebuild(h.tokens, int32(windowStart(len(prompt), c.params.DRYPenaltyLastN)), since)
	}
	if h.ngram.on {
		h.ngram.rebuild(h.tokens, 0, int32(len(prompt)))
	}
}

// accept appends one output token.
func (h *history) accept(c *core, t int32, position int) {
	if !c.needHistory {
		return
	}
	e := h.table.at(t)
	e.output++
	if c.params.PenaltyLastN != 0 {
		e.window++
	}
	if c.needTokens {
		h.tokens, h.prev = append(h.tokens, t), append(h.prev, e.last)
	}
	e.last = int32(position)
	if n := c.params.PenaltyLastN; n > 0 && c.needTokens && len(h.tokens) > n {
		h.table.at(h.tokens[len(h.tokens)-1-n]).window--
	}
	p := int32(len(h.tokens) - 1)
	if h.dry.on {
		start := windowStart(len(h.tokens), c.params.DRYPenaltyLastN)
		h.dry.push(h.tokens, h.prev, p, int32(start), c.breaks(h.tokens))
	}
	if h.ngram.on {
		h.ngram.push(h.tokens, h.prev, p, 0, false)
	}
}

func (h *history) copyFrom(o *history) {
	h.tokens = append(h.tokens[:0], o.tokens...)
	h.prev = append(h.prev[:0], o.prev...)
	h.table.copyFrom(&o.table)
	h.dry.copyFrom(&o.dry)
	h.ngram.copyFrom(&o.ngram)
}

// breaks reports whether a DRY sequence breaker ends at the end of tokens.
func (c *core) breaks(tokens []int32) bool {
	for _, b := range c.breakers {
		if n := len(tokens) - len(b); n >= 0 && equal(tokens[n:], b) {
			return true
		}
	}
	return false
}

func equal(a, b []int32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
