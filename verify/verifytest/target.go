// Package verifytest has what tests of rounds, drafters and engines need in
// place of a checkpoint: a target that is a hash function, chains, and a decode
// helper that checks the invariants after every round.
//
// The target keeps its state where a real one keeps keys and values: in the
// slots of cache pages. A sequence that was rolled back to the wrong length, or
// a page shared wrongly, changes every later token.
package verifytest

import (
	"errors"
	"math"

	"surmise/compute"
	"surmise/kvcache"
	"surmise/model"
)

// Options describe a Target. Zero values mean: 24 tokens, a context of 4096,
// one group of layers without a window, room for everything.
type Options struct {
	Vocab, Context int
	Windows        []int // one group of layers for each
	EOS            []int // end tokens
	Budget         int64
	// Order is how many tokens the next one chiefly depends on: 2 if zero.
	Order int
	// Memory is the weight of everything before them: 0.2 if zero.
	Memory float32
}

// Target is a language model made of a hash function.
type Target struct {
	// Before is called with every batch; an error fails the forward.
	Before func(*model.Batch) error
	// Adjust may change the logits after the token at a position.
	Adjust func(position int, logits []float32)
	// Forwards counts forwards.
	Forwards int

	opts  Options
	cache *kvcache.Cache
}

const (
	hidden = 3
	layers = 4
)

// New makes a target.
func New(o Options) (*Target, error) {
	if o.Vocab == 0 {
		o.Vocab = 24
	}
	if o.Context == 0 {
		o.Context = 4096
	}
	if len(o.Windows) == 0 {
		o.Windows = []int{0}
	}
	if o.Budget == 0 {
		o.Budget = 1 << 22
	}
	if o.Order == 0 {
		o.Order = 2
	}
	if o.Memory == 0 {
		o.Memory = 0.2
	}
	t := &Target{opts: o}
	cfg := kvcache.Config{Heads: 1, HeadDim: 1, Budget: o.Budget, Context: o.Context}
	for _, w := range o.Windows {
		cfg.Groups = append(cfg.Groups, kvcache.Group{Layers: 1, Window: w})
	}
	var err error
	t.cache, err = kvcache.New(device{}, cfg)
	return t, err
}

// Spec describes the target: 4 layers of width 3.
func (t *Target) Spec() model.Spec {
	return model.Spec{
		Architecture: "hash", Vocab: t.opts.Vocab, Hidden: hidden, Layers: layers,
		Context: t.opts.Context, BOS: -1, EOS: t.opts.EOS, Windows: t.opts.Windows,
	}
}

// Device can do nothing but keep pages.
func (t *Target) Device() compute.Device { return device{} }

// Cache is where the sequences live.
func (t *Target) Cache() *kvcache.Cache { return t.cache }

// Embedding is nil: there is none.
func (t *Target) Embedding() compute.Table { return nil }

// EmbedScale is 1.
func (t *Target) EmbedScale() float32 { return 1 }

// Head is nil: there is none.
func (t *Target) Head() compute.Linear { return nil }

// Close gives the cache back.
func (t *Target) Close() error { return t.cache.Close() }

// Forward computes a batch as model.Target says.
func (t *Target) Forward(b *model.Batch) error {
	t.Forwards++
	res := &results{}
	var lengths []int
	undo := func() {
		for i, n := range lengths {
			_ = b.Rows[i].Seq.Truncate(n)
		}
	}
	for i, r := range b.Rows {
		lengths = append(lengths, r.Seq.Len())
		if err := r.Seq.Append(r.Tokens); err != nil {
			undo()
			return &model.RowError{Row: i, Err: err}
		}
	}
	if t.Before != nil {
		if err := t.Before(b); err != nil {
			undo()
			return err
		}
	}
	for i := range b.Rows {
		res.rows = append(res.rows, t.row(&b.Rows[i], lengths[i], b.Hidden))
	}
	b.Results = res
	return nil
}

// row computes one row: the state of every token goes to its slot in every
// group, the logits come from the slots.
func (t *Target) row(r *model.Row, start int, hiddenLayers []int) rowResults {
	out := rowResults{hidden: make([]buffer, len(hiddenLayers))}
	for i, token := range r.Tokens {
		p := start + i
		var before uint64
		if p > 0 {
			before = t.load(r.Seq, p-1).history
		}
		t.store(r.Seq, p, slot{token, mix(before, uint64(token)+1)})
		for h, l := range hiddenLayers {
			out.hidden[h] = append(out.hidden[h], Hidden(token, p, l)...)
		}
		if i < len(r.Tokens)-r.Logits {
			continue
		}
		logits := t.logits(r.Seq, p)
		best, ok := argmax(logits)
		if r.ArgmaxOnly {
			logits = nil
		}
		out.logits, out.best, out.ok = append(out.logits, logits), append(out.best, best), append(out.ok, ok)
	}
	return out
}

// Hidden is the hidden state [3] the target reports for a token.
func Hidden(token int32, position, layer int) []float32 {
	return []float32{float32(token), float32(position), float32(layer)}
}

func (t *Target) logits(s *kvcache.Seq, p int) []float32 {
	var recent uint64
	for i := max(0, p-t.opts.Order+1); i <= p; i++ {
		recent = mix(recent, uint64(t.load(s, i).token)+1)
	}
	history := t.load(s, p).history
	logits := make([]float32, t.opts.Vocab)
	for v := range logits {
		logits[v] = 4*unit(mix(recent, uint64(v))) + 4*t.opts.Memory*unit(mix(history, uint64(v)))
	}
	if t.Adjust != nil {
		t.Adjust(p, logits)
	}
	return logits
}

func (t *Target) store(s *kvcache.Seq, p int, x slot) {
	for g := range t.opts.Windows {
		t.pages(g).put(t.slot(s, g, p), x)
	}
}

// load reads position p from the group with the widest view, and poisons the
// state when another group that should see it disagrees.
func (t *Target) load(s *kvcache.Seq, p int) slot {
	x := t.pages(0).get(t.slot(s, 0, p))
	for g, w := range t.opts.Windows {
		if w == 0 || p >= s.Len()-w {
			if y := t.pages(g).get(t.slot(s, g, p)); y != x {
				x.history ^= y.history + 1
			}
		}
	}
	return x
}

func (t *Target) slot(s *kvcache.Seq, g, p int) int {
	return int(s.Pages(g)[p/compute.PageSize])*compute.PageSize + p%compute.PageSize
}

func (t *Target) pages(g int) *pages { return t.cache.KV(g).(*pages) }

func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func unit(h uint64) float32 { return float32(h>>40) / (1 << 24) }

func argmax(logits []float32) (best int32, ok bool) {
	for i, z := range logits {
		if math.IsNaN(float64(z)) {
			return -1, false
		}
		if z > logits[best] {
			best = int32(i)
		}
	}
	return best, true
}

type rowResults struct {
	logits [][]float32
	best   []int32
	ok     []bool
	hidden []buffer
}

type results struct{ rows []rowResults }

func (r *results) Logits(row, i int) []float32     { return r.rows[row].logits[i] }
func (r *results) Argmax(row, i int) (int32, bool) { return r.rows[row].best[i], r.rows[row].ok[i] }
func (r *results) Hidden(row, i int) compute.View {
	return compute.ViewOf(r.rows[row].hidden[i], hidden)
}

type buffer []float32

func (b buffer) Len() int        { return len(b) }
func (b buffer) Host() []float32 { return b }

// slot is what a position of a page holds.
type slot struct {
	token   int32
	history uint64
}

// pages is a compute.KV of slots.
type pages struct {
	spec  compute.KVSpec
	slots []slot
}

func (p *pages) Spec() compute.KVSpec { return p.spec }

func (p *pages) put(i int, x slot) {
	if n := (i/compute.PageSize + 1) * compute.PageSize; n > len(p.slots) {
		p.slots = append(p.slots, make([]slot, n-len(p.slots))...)
	}
	p.slots[i] = x
}

func (p *pages) get(i int) slot { return p.slots[i] }

func (p *pages) CopyPage(dst, src int) {
	for i := range compute.PageSize {
		p.put(dst*compute.PageSize+i, p.get(src*compute.PageSize+i))
	}
}

func (p *pages) FillPage(page int, _ float32) {
	for i := range compute.PageSize {
		p.put(page*compute.PageSize+i, slot{-7, 0xdead})
	}
}

func (p *pages) Close() error { return nil }

// device keeps pages and refuses everything else.
type device struct{ compute.Device }

var errNoCompute = errors.New("the hash target's device computes nothing")

func (device) Name() string                               { return "hash" }
func (device) Threads() int                               { return 1 }
func (device) Alloc(n int) (compute.Buffer, error)        { return make(buffer, n), nil }
func (device) NewKV(s compute.KVSpec) (compute.KV, error) { return &pages{spec: s}, nil }
func (device) Run(*compute.Program) error                 { return errNoCompute }
func (device) Close() error                               { return nil }
