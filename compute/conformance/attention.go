package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"surmise/compute"
)

// attentionCase is a drawn cache and the steps that fill and read it.
type attentionCase struct {
	spec  compute.KVSpec
	heads int
	seed  uint64
	steps []attentionStep
}

// attentionStep stores rows of keys and values and then attends with some rows.
type attentionStep struct {
	slots  []int32
	layer  int
	scale  float32
	spans  []compute.Span
	copies [][2]int // pages copied before it: {dst, src}
}

// sequence is what the drawing of steps keeps of one: its pages and length.
type sequence struct {
	pages []int32
	n     int
}

func drawAttention(t *rapid.T, r *rand.Rand) attentionCase {
	kvHeads := rapid.IntRange(1, 3).Draw(t, "kv heads")
	share := rapid.SampledFrom([]int{1, 2, 3, 4, 7}).Draw(t, "query heads per kv head")
	c := attentionCase{
		heads: kvHeads * share,
		spec: compute.KVSpec{
			Layers: rapid.IntRange(1, 2).Draw(t, "layers"), Heads: kvHeads, Pages: 48,
			HeadDim: rapid.SampledFrom([]int{2, 8, 16, 20, 32, 40, 64, 80, 128}).Draw(t, "head dimension"),
			Type:    rapid.SampledFrom([]compute.KVType{compute.KVF16, compute.KVF32}).Draw(t, "type"),
		},
	}
	free := r.Perm(c.spec.Pages)
	seqs := make([]sequence, rapid.IntRange(1, 3).Draw(t, "sequences"))
	budget := 600_000 / (c.heads * c.spec.HeadDim) // (row, position) pairs
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		step := attentionStep{layer: r.IntN(c.spec.Layers), scale: float32(1 / math.Sqrt(float64(c.spec.HeadDim)))}
		for i := range seqs {
			// Mostly a few positions; sometimes so many that chunks of 256 are crossed.
			m := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(200, 600)).Draw(t, "positions")
			free = seqs[i].grow(m, free, &step)
			rows := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 64)).Draw(t, "rows")
			bidirectional := rapid.Bool().Draw(t, "bidirectional")
			window := rapid.SampledFrom([]int{0, 0, 1, 5, 70, 300}).Draw(t, "window")
			for j := max(0, seqs[i].n-rows); j < seqs[i].n && budget > 0; j++ {
				s := compute.Span{Pages: seqs[i].pages, Hi: int32(j + 1)}
				if bidirectional {
					s.Hi = int32(seqs[i].n)
				}
				if window > 0 {
					s.Lo = max(0, s.Hi-int32(window))
				}
				budget -= int(s.Hi - s.Lo)
				step.spans = append(step.spans, s)
			}
		}
		if len(step.spans) == 0 {
			continue
		}
		if r.IntN(2) == 0 { // rows of different sequences in turn share no pages with their neighbours
			r.Shuffle(len(step.spans), func(i, j int) { step.spans[i], step.spans[j] = step.spans[j], step.spans[i] })
		}
		c.steps = append(c.steps, step)
	}
	return c
}

// grow appends m positions, as far as pages are free. Now and then the last page
// moves to a copy of itself, as copy-on-write does.
func (s *sequence) grow(m int, free []int, step *attentionStep) []int {
	if last := len(s.pages) - 1; last >= 0 && s.n%compute.PageSize != 0 && len(free) > 0 && m%3 == 1 {
		step.copies = append(step.copies, [2]int{free[0], int(s.pages[last])})
		s.pages = append([]int32(nil), s.pages...)
		s.pages[last] = int32(free[0])
		free = free[1:]
	}
	for ; m > 0; m-- {
		if s.n == len(s.pages)*compute.PageSize {
			if len(free) == 0 {
				return free
			}
			s.pages = append(s.pages[:len(s.pages):len(s.pages)], int32(free[0]))
			free = free[1:]
		}
		step.slots = append(step.slots, s.pages[s.n/compute.PageSize]*compute.PageSize+int32(s.n%compute.PageSize))
		s.n++
	}
	return free
}

// attention: given pages full of NaN, sequences that grow, windows, blocks that
// see each other, and page tables in any order, every output equals the canon's.
func (s *suite) attention(t *rapid.T) {
	r := drawRand(t)
	c := drawAttention(t, r)
	c.seed = r.Uint64()
	keys, queries := drawKind(t, "keys"), drawKind(t, "queries")
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		return c.run(d, emit, keys, queries)
	})
}

func (c *attentionCase) run(d compute.Device, emit func(string, []float32), keys, queries kind) (err error) {
	kv, err := d.NewKV(c.spec)
	if err != nil {
		return err
	}
	defer func() {
		if e := kv.Close(); err == nil {
			err = e
		}
	}()
	for p := range c.spec.Pages {
		kv.FillPage(p, float32(math.NaN())) // whatever is not written must not be read
	}
	r := rand.New(rand.NewPCG(c.seed, 2))
	for i := range c.steps {
		if err := c.step(d, kv, &c.steps[i], r, emit, keys, queries); err != nil {
			return err
		}
	}
	return nil
}

// step runs one program. Keys and values go to every layer, since any of them
// may be attended later.
func (c *attentionCase) step(d compute.Device, kv compute.KV, step *attentionStep, r *rand.Rand, emit func(string, []float32), keys, queries kind) error {
	width, cols := c.spec.Heads*c.spec.HeadDim, c.heads*c.spec.HeadDim
	rows := len(step.spans)
	k, err := alloc(d, values(r, keys, max(1, len(step.slots))*width))
	if err != nil {
		return err
	}
	v, err := alloc(d, values(r, keys, max(1, len(step.slots))*width))
	if err != nil {
		return err
	}
	q, err := alloc(d, values(r, queries, rows*cols))
	if err != nil {
		return err
	}
	out, err := d.Alloc(rows * cols)
	if err != nil {
		return err
	}
	for _, cp := range step.copies {
		kv.CopyPage(cp[0], cp[1])
	}
	var p compute.Program
	for layer := range c.spec.Layers {
		p.StoreKV(kv, layer, compute.ViewOf(k, width), compute.ViewOf(v, width), len(step.slots), step.slots)
	}
	p.Attend(compute.ViewOf(out, cols), compute.ViewOf(q, cols), rows, c.heads, kv, step.layer, step.spans, step.scale)
	err = d.Run(&p)
	emit(fmt.Sprintf("attention of %d rows, %d heads on %d of %d, %s", rows, c.heads, c.spec.Heads, c.spec.HeadDim, c.spec.Type), out.Host())
	return err
}
