package kvcache_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute"
	"surmise/kvcache"
)

// windows of the groups that scripts run over: full attention, a window below
// a page, one of several pages.
var windows = []int{0, 24, 150}

// world runs a script over a cache and keeps, for every sequence, what it must
// hold: just its tokens. Everything else is read off the pages.
type world struct {
	t         *rapid.T
	dev       *fakeDevice
	c         *kvcache.Cache
	budget    int64
	seqs      []*kvcache.Seq
	want      [][]int32
	peak      []int            // greatest length at which an Append began
	published map[string]int64 // full pages published, by all tokens up to their end
	clock     int64
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, dev: &fakeDevice{}, published: map[string]int64{}}
	cfg := kvcache.Config{Heads: 1, HeadDim: 2, Type: compute.KVF16, Context: 700}
	for i, window := range windows {
		cfg.Groups = append(cfg.Groups, kvcache.Group{Layers: i + 1, Window: window})
	}
	cfg.Budget = cfg.PageBytes() * rapid.Int64Range(1, 60).Draw(t, "budget in pages")
	w.budget = cfg.Budget
	c, err := kvcache.New(w.dev, cfg)
	require.NoError(t, err)
	w.c = c
	return w
}

// drawTokens is a run of tokens from so small an alphabet, and so regular, that
// sequences often begin alike.
func (w *world) drawTokens(label string, most int) []int32 {
	n := rapid.IntRange(0, most).Draw(w.t, label)
	tokens := make([]int32, n)
	first := rapid.Int32Range(1, 2).Draw(w.t, "token")
	for i := range tokens {
		tokens[i] = first
	}
	return tokens
}

func (w *world) pick() int {
	if len(w.seqs) == 0 {
		w.t.Skip("no sequence")
	}
	return rapid.IntRange(0, len(w.seqs)-1).Draw(w.t, "sequence")
}

func (w *world) add(s *kvcache.Seq, tokens []int32, peak int) {
	w.seqs = append(w.seqs, s)
	w.want = append(w.want, slices.Clone(tokens))
	w.peak = append(w.peak, peak)
}

func (w *world) append(*rapid.T) {
	i := w.pick()
	w.extend(i, w.drawTokens("appended", 200))
}

// extend appends and, as a forward would, writes the new slots.
func (w *world) extend(i int, tokens []int32) bool {
	s, from := w.seqs[i], len(w.want[i])
	if len(tokens) > 0 {
		w.peak[i] = max(w.peak[i], from)
	}
	err := s.Append(tokens)
	if err != nil {
		switch {
		case from+len(tokens) > w.c.Config().Context:
			require.ErrorIs(w.t, err, kvcache.ErrContext)
		default:
			require.ErrorIs(w.t, err, kvcache.ErrFull)
			if most := int64(len(tokens)/compute.PageSize+2) * w.c.Config().PageBytes(); most > w.budget {
				return false // more than the whole cache: nothing is evicted for it
			}
			require.Zero(w.t, w.c.Stats().Idle, "published pages that nobody uses are evicted before an append fails")
		}
		return false
	}
	for g := range windows {
		kv := w.dev.stores[g]
		for j, slot := range s.Slots(g, from, nil) {
			require.Less(w.t, int(slot), kv.spec.Pages*compute.PageSize, "slot beyond the store")
			kv.slots[slot] = tokens[j]
		}
	}
	w.want[i] = append(w.want[i], tokens...)
	return true
}

func (w *world) truncate(*rapid.T) {
	i := w.pick()
	n := rapid.IntRange(0, len(w.want[i])).Draw(w.t, "length")
	err := w.seqs[i].Truncate(n)
	if err != nil {
		require.ErrorIs(w.t, err, kvcache.ErrWindow)
		require.Less(w.t, n, w.peak[i]-kvcache.Slack, "a cut that must be possible")
		return
	}
	w.want[i] = w.want[i][:n]
}

// fail is a forward of several chunks that breaks off: mark, append, cut back.
func (w *world) fail(*rapid.T) {
	i := w.pick()
	s, n := w.seqs[i], len(w.want[i])
	peak := w.peak[i]
	s.Mark()
	for range rapid.IntRange(0, 6).Draw(w.t, "chunks") {
		w.extend(i, w.drawTokens("appended", 100))
	}
	require.NoError(w.t, s.Truncate(n), "cut back to the mark")
	w.want[i] = w.want[i][:n]
	w.peak[i] = max(peak, n)
	if rapid.Bool().Draw(w.t, "append before unmark") {
		w.extend(i, w.drawTokens("appended", 100))
	}
	s.Unmark()
}

func (w *world) fork(*rapid.T) {
	if len(w.seqs) > 5 {
		w.t.Skip("enough sequences")
	}
	i := w.pick()
	f, err := w.seqs[i].Fork()
	require.NoError(w.t, err)
	w.add(f, w.want[i], w.peak[i])
}

func (w *world) open(*rapid.T) {
	if len(w.seqs) > 5 {
		w.t.Skip("enough sequences")
	}
	w.add(w.c.Open(), nil, 0)
}

func (w *world) close(*rapid.T) {
	i := w.pick()
	w.seqs[i].Close()
	w.seqs[i].Close()
	require.ErrorIs(w.t, w.seqs[i].Append([]int32{1}), kvcache.ErrClosed)
	w.seqs = slices.Delete(w.seqs, i, i+1)
	w.want = slices.Delete(w.want, i, i+1)
	w.peak = slices.Delete(w.peak, i, i+1)
}

func (w *world) publish(*rapid.T) {
	i := w.pick()
	w.seqs[i].Publish()
	for n := compute.PageSize; n <= len(w.want[i]); n += compute.PageSize {
		w.clock++
		w.published[name(w.want[i][:n])] = w.clock
	}
}

func name(tokens []int32) string {
	b := make([]byte, len(tokens))
	for i, t := range tokens {
		b[i] = byte(t)
	}
	return string(b)
}

func (w *world) match(*rapid.T) {
	if len(w.seqs) > 5 {
		w.t.Skip("enough sequences")
	}
	tokens := w.drawTokens("prompt", 300)
	tokens = append(tokens, w.drawTokens("prompt", 100)...)
	s := w.c.Match(tokens)
	n := s.Len()
	require.LessOrEqual(w.t, n, max(0, len(tokens)-1), "a token is left")
	require.Equal(w.t, name(tokens[:n]), name(s.Tokens()))
	if pages := (n + compute.PageSize - 1) / compute.PageSize; pages > 0 {
		end := pages * compute.PageSize
		require.True(w.t, n%compute.PageSize == 0 || end == len(tokens), "only the last token is taken off")
		require.Contains(w.t, w.published, name(tokens[:end]), "a match was published")
	}
	w.add(s, tokens[:n], n)
}

// check is the invariant: every sequence sees its own tokens wherever a row at
// its end, or up to Slack before it, would look; and the books are right.
func (w *world) check(*rapid.T) {
	stats := w.c.Stats()
	require.LessOrEqual(w.t, stats.Used, w.budget)
	require.Equal(w.t, len(w.seqs), stats.Sequences)
	held := map[[2]int32]bool{}
	for i, s := range w.seqs {
		require.Equal(w.t, len(w.want[i]), s.Len())
		require.Equal(w.t, name(w.want[i]), name(s.Tokens()))
		for g, window := range windows {
			pages := s.Pages(g)
			require.Len(w.t, pages, (s.Len()+compute.PageSize-1)/compute.PageSize)
			visible := 0
			if window > 0 {
				visible = max(0, min(s.Len(), w.peak[i]-kvcache.Slack)-window+1)
			}
			for p := visible; p < s.Len(); p++ {
				page := pages[p/compute.PageSize]
				require.GreaterOrEqual(w.t, page, int32(0), "group %d gave up position %d of %d", g, p, s.Len())
				require.Equal(w.t, w.want[i][p], w.dev.stores[g].slots[page*compute.PageSize+int32(p%compute.PageSize)],
					"sequence %d, group %d, position %d", i, g, p)
			}
			for _, page := range pages {
				if page >= 0 {
					held[[2]int32{int32(g), page}] = true
				}
			}
		}
	}
	var used int64
	for page := range held {
		spec := w.dev.stores[page[0]].spec
		spec.Pages = 1
		used += spec.PageBytes()
	}
	require.Equal(w.t, used, stats.Used-stats.Idle, "bytes that sequences hold")
}

func TestSequencesSeeTheirOwnTokensWhateverTheScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"append": w.append, "append more": w.append, "truncate": w.truncate, "fail": w.fail, "fork": w.fork,
			"open": w.open, "close": w.close, "publish": w.publish, "match": w.match, "": w.check,
		})
		for len(w.seqs) > 0 {
			w.seqs[0].Close()
			w.seqs = w.seqs[1:]
		}
		stats := w.c.Stats()
		require.Equal(t, stats.Idle, stats.Used, "closed sequences hold nothing")
		require.Zero(t, stats.Sequences)
		require.NoError(t, w.c.Close())
		for _, kv := range w.dev.stores {
			require.True(t, kv.closed)
		}
	})
}
