package costs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"surmise/compute"
	"surmise/kvcache"
	"surmise/model"
)

// MaxRows is the greatest number of rows that can be measured: what a sequence
// can always be rolled back by.
const MaxRows = 64

// Rows are the numbers of rows of a full table.
func Rows() []int { return []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} }

// Options say what Measure does. Clock is needed, the rest may be zero.
type Options struct {
	// Rows are the numbers of rows to measure, 1 to MaxRows; all of Rows() if nil.
	Rows []int
	// Context is how many positions are cached before each forward. Context and
	// the most rows must fit into the target's context.
	Context int
	// Repeats is how often each number of rows is measured at most; 21 if zero.
	Repeats int
	// Budget is the time after which no further forward begins, but for those of
	// the two smallest numbers of rows; a minute if zero. Filling the context
	// comes on top.
	Budget time.Duration
	// Limits also measures what the device can do, if it is a compute.Prober.
	Limits bool
	// Clock is what times are measured with.
	Clock func() time.Time
	// Seed chooses tokens and order.
	Seed uint64
}

const (
	defaultRepeats = 21
	defaultBudget  = time.Minute
	// settling is how long forwards of one size run before one is timed, eight at
	// most: those of large models do not live in the caches.
	settling = 2 * time.Millisecond
)

// check fills in defaults.
func (o *Options) check(s model.Spec) error {
	if o.Clock == nil {
		return errors.New("no clock")
	}
	if o.Rows == nil {
		o.Rows = Rows()
	}
	o.Rows = slices.Clone(o.Rows)
	slices.Sort(o.Rows)
	o.Rows = slices.Compact(o.Rows)
	if len(o.Rows) == 0 || o.Rows[0] < 1 || o.Rows[len(o.Rows)-1] > MaxRows {
		return fmt.Errorf("numbers of rows %v: want some from 1 to %d", o.Rows, MaxRows)
	}
	most := o.Rows[len(o.Rows)-1]
	if o.Context < 0 || o.Context > s.Context-most {
		return fmt.Errorf("context %d: want 0 to %d, so that %d rows fit behind it", o.Context, s.Context-most, most)
	}
	if o.Repeats <= 0 {
		o.Repeats = defaultRepeats
	}
	if o.Budget <= 0 {
		o.Budget = defaultBudget
	}
	return nil
}

// Measure times forwards of random tokens over one sequence, which is rolled
// back after each. All numbers of rows take turns, in an order that is new in
// every pass, so that a machine that becomes slower or faster meanwhile is so
// for all of them; results are medians. It ends early when ctx is done.
func Measure(ctx context.Context, target model.Target, o Options) (Table, error) {
	if err := o.check(target.Spec()); err != nil {
		return Table{}, fmt.Errorf("measure costs: %w", err)
	}
	m := &meter{
		ctx: ctx, target: target, opts: o, random: rand.New(rand.NewPCG(o.Seed, 0)),
		batch: model.Batch{Rows: make([]model.Row, 1)}, took: map[int][]time.Duration{},
	}
	table, err := m.measure()
	if err != nil {
		return Table{}, fmt.Errorf("measure costs: %w", err)
	}
	return table, nil
}

// meter is a measurement under way.
type meter struct {
	ctx    context.Context
	target model.Target
	opts   Options
	random *rand.Rand
	seq    *kvcache.Seq
	batch  model.Batch
	tokens []int32
	start  time.Time

	took  map[int][]time.Duration
	probe compute.Probe
	seen  []compute.Limits
}

func (m *meter) measure() (Table, error) {
	m.seq = m.target.Cache().Open()
	defer m.seq.Close()
	if err := m.fill(); err != nil {
		return Table{}, err
	}
	if p, ok := m.target.Device().(compute.Prober); ok && m.opts.Limits {
		probe, err := p.NewProbe()
		if err != nil {
			return Table{}, err
		}
		m.probe = probe
		defer probe.Close()
	}
	if err := m.passes(); err != nil {
		return Table{}, err
	}
	t := Table{Context: m.opts.Context, Forward: map[int]time.Duration{}, Limits: m.limits()}
	for rows, took := range m.took {
		t.Forward[rows] = median(took)
	}
	t.roofline(m.target.Spec())
	return t, nil
}

// fillRows is how much of the context is filled at once: ctx is looked at in
// between, since a long context takes a minute.
const fillRows = 512

// fill puts random tokens into the context; one row more is computed and rolled
// back, so that nothing timed is the first forward.
func (m *meter) fill() error {
	for n := m.opts.Context; n > 0; n -= fillRows {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if _, err := m.forward(min(n, fillRows), 0); err != nil {
			return err
		}
	}
	_, err := m.time(1)
	return err
}

// passes measures every number of rows again and again, each behind forwards like
// it. The times of the first pass, in which buffers grow, count only where there
// are no others.
func (m *meter) passes() error {
	m.start = m.opts.Clock()
	order := slices.Clone(m.opts.Rows)
	for pass := range m.opts.Repeats + 1 {
		if err := m.limit(); err != nil {
			return err
		}
		for i, rows := range order {
			done, err := m.done(pass == 0 && i < 2)
			if done || err != nil {
				return err
			}
			took, err := m.settled(rows)
			if err != nil {
				return err
			}
			if pass == 1 {
				m.took[rows] = nil
			}
			m.took[rows] = append(m.took[rows], took)
		}
		m.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return nil
}

// done tells whether the budget is used up, or ctx is done.
func (m *meter) done(needed bool) (bool, error) {
	if err := m.ctx.Err(); err != nil {
		return true, err
	}
	return !needed && m.opts.Clock().Sub(m.start) > m.opts.Budget, nil
}

// limit measures the device's limits.
func (m *meter) limit() error {
	if m.probe == nil {
		return nil
	}
	l, err := m.probe.Measure(m.opts.Clock)
	m.seen = append(m.seen, l)
	return err
}

// limits is the median of each of the limits.
func (m *meter) limits() compute.Limits {
	if len(m.seen) == 0 {
		return compute.Limits{}
	}
	of := func(get func(compute.Limits) float64) float64 {
		var v []float64
		for _, l := range m.seen {
			v = append(v, get(l))
		}
		return median(v)
	}
	return compute.Limits{
		Bandwidth:   of(func(l compute.Limits) float64 { return l.Bandwidth }),
		Int8MACs:    of(func(l compute.Limits) float64 { return l.Int8MACs }),
		Float32MACs: of(func(l compute.Limits) float64 { return l.Float32MACs }),
	}
}

// settled is the time of a forward behind some like it. Decoding, most forwards find
// in the processor's caches what many of about their size have left there: behind
// one of 64 rows a single row of a small model takes three times as long, behind one
// of a single row half as long again, and only then what it takes in decoding.
func (m *meter) settled(rows int) (took time.Duration, err error) {
	for n, spent := 0, time.Duration(0); n < 8 && spent < settling; n++ {
		if took, err = m.time(rows); err != nil {
			return 0, err
		}
		spent += took
	}
	return m.time(rows)
}

// time is the time of a forward of so many rows, which is rolled back.
func (m *meter) time(rows int) (time.Duration, error) {
	took, err := m.forward(rows, rows)
	if err != nil {
		return 0, err
	}
	return took, m.seq.Truncate(m.opts.Context)
}

// forward appends random tokens, with logits for the last of them.
func (m *meter) forward(tokens, logits int) (time.Duration, error) {
	m.tokens = m.tokens[:0]
	for range tokens {
		m.tokens = append(m.tokens, m.random.Int32N(int32(m.target.Spec().Vocab)))
	}
	m.batch.Rows[0] = model.Row{Seq: m.seq, Tokens: m.tokens, Logits: logits}
	start := m.opts.Clock()
	if err := m.target.Forward(&m.batch); err != nil {
		return 0, err
	}
	return m.opts.Clock().Sub(start), nil
}

// median sorts v; of an even number it is the lower of the middle two.
func median[T time.Duration | float64](v []T) T {
	slices.Sort(v)
	return v[(len(v)-1)/2]
}
