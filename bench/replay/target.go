package replay

import (
	"errors"
	"fmt"
	"time"

	"surmise/bench"
	"surmise/bench/recording"
	"surmise/compute"
	"surmise/kvcache"
	"surmise/model"
)

// Target answers with a recorded stream. It implements model.Target.
type Target struct {
	spec  model.Spec
	cache *kvcache.Cache
	costs *bench.Costs
	watch *clock

	stream []int32     // prompt and all that was drawn
	hidden [][]float32 // by recorded layer [positions, hidden]
	layers []int

	rows   []answered
	wanted []int     // layers of the batch, as indices of hidden
	logits []float32 // one token stands out; made when first wanted
	spike  int       // which
	states []buffer  // hidden, as buffers
}

// answered is a row of the last forward.
type answered struct{ start, tokens, wanted int }

// newTarget makes a target of a recording's header. Its forwards take the time
// that costs say on the watch.
func newTarget(h *recording.Header, costs *bench.Costs, watch *clock) (*Target, error) {
	cache, err := kvcache.New(device{}, h.Spec.Cache())
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return &Target{spec: h.Spec.Model(), cache: cache, costs: costs, watch: watch, layers: h.Layers}, nil
}

// play sets the stream that is answered with.
func (t *Target) play(i *recording.Item, hidden [][]float32) {
	t.stream = append(append(t.stream[:0], i.Prompt...), i.Tokens...)
	t.hidden, t.states = hidden, t.states[:0]
	for _, h := range hidden {
		t.states = append(t.states, buffer(h))
	}
}

// Spec describes the recorded target.
func (t *Target) Spec() model.Spec { return t.spec }

// Device computes nothing.
func (t *Target) Device() compute.Device { return device{} }

// Cache keeps tokens only.
func (t *Target) Cache() *kvcache.Cache { return t.cache }

// Embedding is nil: drafters that borrow it are bound to the real target.
func (t *Target) Embedding() compute.Table { return nil }

// EmbedScale is 1.
func (t *Target) EmbedScale() float32 { return 1 }

// Head is nil, as Embedding is.
func (t *Target) Head() compute.Linear { return nil }

// Close gives the cache back.
func (t *Target) Close() error { return t.cache.Close() }

// Forward appends the rows' tokens and lets the time pass that a real forward
// takes.
func (t *Target) Forward(b *model.Batch) error {
	t.rows, t.wanted = t.rows[:0], t.wanted[:0]
	for _, l := range b.Hidden {
		at := -1
		for i, have := range t.layers {
			if have == l {
				at = i
			}
		}
		if at < 0 || t.hidden == nil {
			return fmt.Errorf("replay: the drafter reads layer %d, but the recording has layers %v: record it with this drafter", l, t.layers)
		}
		t.wanted = append(t.wanted, at)
	}
	tokens, context := 0, 0
	for i := range b.Rows {
		r := &b.Rows[i]
		start := r.Seq.Len()
		if err := r.Seq.Append(r.Tokens); err != nil {
			for j := range t.rows {
				_ = b.Rows[j].Seq.Truncate(t.rows[j].start)
			}
			return &model.RowError{Row: i, Err: err}
		}
		t.rows = append(t.rows, answered{start, len(r.Tokens), r.Logits})
		tokens += len(r.Tokens)
		context = max(context, start)
	}
	t.watch.pass(t.costs.Round(tokens, context))
	b.Results = t
	return nil
}

// next is the recorded token behind wanted token i of a row. Behind a wrong
// proposal it means nothing, and is not looked at.
func (t *Target) next(row, i int) (token int32, ok bool) {
	r := t.rows[row]
	at := r.start + r.tokens - r.wanted + i + 1
	if at >= len(t.stream) {
		return -1, false
	}
	return t.stream[at], true
}

// Argmax is the recorded token; not ok behind the end of the stream, where a
// replay of the same rounds never looks.
func (t *Target) Argmax(row, i int) (int32, bool) {
	t.draw()
	return t.next(row, i)
}

// draw lets the time of drawing a token pass.
func (t *Target) draw() { t.watch.pass(time.Duration(t.costs.SampleTime() * float64(time.Second))) }

// floor is the logit of every token but the recorded one. It is finite, so that
// no filter meets a difference of infinities, and so low that neither bias nor
// noise reaches up from it.
const floor = -1e30

// Logits are such that every chain draws the recorded token. They are valid
// until they are next asked for.
func (t *Target) Logits(row, i int) []float32 {
	if t.logits == nil {
		t.logits = make([]float32, t.spec.Vocab)
		for j := range t.logits {
			t.logits[j] = floor
		}
	}
	t.logits[t.spike] = floor
	if token, ok := t.next(row, i); ok {
		t.spike = int(token)
		t.logits[token] = 0
	}
	t.draw()
	return t.logits
}

// Hidden are the recorded states from a row's first token on.
func (t *Target) Hidden(row, index int) compute.View {
	v := compute.ViewOf(t.states[t.wanted[index]], t.spec.Hidden)
	return v.Skip(t.rows[row].start)
}

// buffer is memory of the host.
type buffer []float32

func (b buffer) Len() int        { return len(b) }
func (b buffer) Host() []float32 { return b }

// device keeps pages without memory and refuses everything else.
type device struct{ compute.Device }

var errNoCompute = errors.New("replay: a recorded target computes nothing")

func (device) Name() string                               { return "replay" }
func (device) Threads() int                               { return 1 }
func (device) Alloc(int) (compute.Buffer, error)          { return nil, errNoCompute }
func (device) NewKV(s compute.KVSpec) (compute.KV, error) { return pages{s}, nil }
func (device) Run(*compute.Program) error                 { return errNoCompute }
func (device) Close() error                               { return nil }

// pages is a store that only counts.
type pages struct{ spec compute.KVSpec }

func (p pages) Spec() compute.KVSpec  { return p.spec }
func (p pages) CopyPage(int, int)     {}
func (p pages) FillPage(int, float32) {}
func (p pages) Close() error          { return nil }

// clock is a clock that is moved on by what is not really done.
type clock struct {
	now    func() time.Time
	passed time.Duration
}

func (c *clock) Now() time.Time { return c.now().Add(c.passed) }

func (c *clock) pass(d time.Duration) { c.passed += d }
