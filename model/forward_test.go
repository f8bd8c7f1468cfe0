package model_test

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
	"surmise/kvcache"
	"surmise/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky is a device whose Run fails, or does nothing, when told so.
type flaky struct {
	compute.Device
	failAt int // the run that fails, counted down; 0 is none
	idle   bool
}

var errDevice = errors.New("device lost")

func (d *flaky) Run(p *compute.Program) error {
	if d.idle {
		return nil
	}
	if d.failAt > 0 {
		if d.failAt--; d.failAt == 0 {
			return errDevice
		}
	}
	return d.Device.Run(p)
}

func row(seq *kvcache.Seq, logits int, tokens ...int32) model.Row {
	return model.Row{Seq: seq, Tokens: tokens, Logits: logits}
}

func TestGivenABadRowWhenForwardedThenTheErrorNamesItAndNoSequenceChanges(t *testing.T) {
	m := fixture(t, canon.New(), "gemma3", model.Options{Context: 100})
	other := fixture(t, canon.New(), "llama", model.Options{})
	seq, second, foreign := m.Cache().Open(), m.Cache().Open(), other.Cache().Open()
	require.NoError(t, m.Forward(&model.Batch{Rows: []model.Row{row(seq, 0, 1, 2, 3)}}))
	for want, bad := range map[string]model.Row{
		"not of this model's cache":   row(foreign, 0, 1),
		"no tokens":                   row(second, 0),
		"last 3 of 2 tokens":          row(second, 3, 1, 2),
		"last -1 of 1 tokens":         row(second, -1, 1),
		"token 96 at 1: want 0 to 95": row(second, 1, 5, 96),
		"token -1 at 0: want 0 to 95": row(second, 1, -1),
		"context is 100":              row(second, 1, make([]int32, 101)...),
		"has the sequence of row 0":   row(seq, 1, 4),
	} {
		err := m.Forward(&model.Batch{Rows: []model.Row{row(seq, 1, 4), bad}})
		require.ErrorContains(t, err, want)
		var rowErr *model.RowError
		require.ErrorAs(t, err, &rowErr)
		require.Equal(t, 1, rowErr.Row)
		require.Equal(t, 3, seq.Len())
		require.Zero(t, second.Len())
	}
	err := m.Forward(&model.Batch{Rows: []model.Row{row(seq, 1, 4)}, Hidden: []int{4}})
	require.ErrorContains(t, err, "layer 4: want 0 to 2, or 3")
	require.Equal(t, 3, seq.Len())
	require.NoError(t, m.Forward(&model.Batch{}), "an empty batch is nothing to do")
}

func TestGivenAFullCacheWhenForwardedThenEveryRowIsRolledBack(t *testing.T) {
	m := fixture(t, canon.New(), "gemma3", model.Options{KVBudget: 64 << 10})
	a, b := m.Cache().Open(), m.Cache().Open()
	batch := &model.Batch{Rows: []model.Row{row(a, 1, 1, 2, 3), row(b, 1, make([]int32, 900)...)}}
	err := m.Forward(batch)
	require.ErrorIs(t, err, kvcache.ErrFull)
	var rowErr *model.RowError
	require.ErrorAs(t, err, &rowErr)
	require.Equal(t, 1, rowErr.Row)
	require.Zero(t, a.Len())
	require.Zero(t, b.Len())
	require.Zero(t, m.Cache().Stats().Used)
}

func TestGivenADeviceThatFailsInALaterChunkWhenForwardedThenRowsGoBackAndGoOn(t *testing.T) {
	dev := &flaky{Device: canon.New()}
	m := fixture(t, dev, "gemma3", model.Options{})
	s := truth(t, "gemma3", model.Options{}, 1)
	seq := m.Cache().Open()
	s.forward(t, m, seq, 130)
	dev.failAt = 2 // the window has left position 130 behind by then
	err := m.Forward(&model.Batch{Rows: []model.Row{row(seq, 1, s.tokens[130:]...)}})
	require.ErrorIs(t, err, errDevice)
	require.Equal(t, 130, seq.Len())
	s.forward(t, m, seq, len(s.tokens)-130)
}

func TestArgmaxOnlyRowsHandOutNoLogitsAndTheSameTokens(t *testing.T) {
	m := fixture(t, canon.New(), "qwen3", model.Options{})
	tokens := []int32{5, 9, 2, 7}
	b := &model.Batch{}
	for _, only := range []bool{false, true, true, false} {
		r := row(m.Cache().Open(), 3, tokens...)
		r.ArgmaxOnly = only
		b.Rows = append(b.Rows, r)
	}
	require.NoError(t, m.Forward(b))
	for r := range b.Rows {
		for i := range 3 {
			want, ok := b.Argmax(0, i)
			require.True(t, ok)
			got, ok := b.Argmax(r, i)
			require.True(t, ok)
			require.Equal(t, want, got)
			require.Equal(t, b.Rows[r].ArgmaxOnly, b.Logits(r, i) == nil)
		}
	}
}

func TestGivenNaNInOneSequenceWhenForwardedThenOnlyItsRowIsNaN(t *testing.T) {
	for _, d := range devices {
		m := fixture(t, d.make(t), "gemma3", model.Options{})
		s := truth(t, "gemma3", model.Options{}, 1)
		sick, well := m.Cache().Open(), m.Cache().Open()
		s.forward(t, m, sick, 10)
		s.forward(t, m, well, 70)
		poison(t, m, sick, 9)
		b := &model.Batch{Rows: []model.Row{row(sick, 1, s.tokens[10]), row(well, 2, s.tokens[70:72]...), row(m.Cache().Open(), 2, s.tokens[:2]...)}}
		b.Rows[2].ArgmaxOnly = true
		require.NoError(t, m.Forward(b))
		_, ok := b.Argmax(0, 0)
		require.False(t, ok)
		s.requireBits(t, b, 1, 70, 2)
		token, ok := b.Argmax(2, 1)
		require.True(t, ok)
		require.Equal(t, canon.Argmax(floats(s.logits[1])), token)

		b.Rows = []model.Row{{Seq: sick, Tokens: s.tokens[11:12], Logits: 1, ArgmaxOnly: true}}
		require.NoError(t, m.Forward(b))
		_, ok = b.Argmax(0, 0)
		require.False(t, ok, "also where the device takes the maximum")
	}
}

func floats(bits []uint32) []float32 {
	v := make([]float32, len(bits))
	for i, b := range bits {
		v[i] = math.Float32frombits(b)
	}
	return v
}

func TestDecodingAllocatesNothingOnceWarm(t *testing.T) {
	dev := &flaky{Device: canon.New(), idle: true} // what the host does, without the device's own work
	m := fixture(t, dev, "gemma3", model.Options{})
	a, c := m.Cache().Open(), m.Cache().Open()
	tokens := []int32{1, 2, 3, 4, 5}
	b := &model.Batch{Rows: make([]model.Row, 2), Hidden: []int{1, 3}}
	step := func() {
		b.Rows[0] = model.Row{Seq: a, Tokens: tokens, Logits: 5}
		b.Rows[1] = model.Row{Seq: c, Tokens: tokens[:1], Logits: 1, ArgmaxOnly: true}
		require.NoError(t, m.Forward(b))
		require.NoError(t, a.Truncate(a.Len()-3))
	}
	for range 300 { // grow the tables, then start over
		step()
	}
	require.NoError(t, a.Truncate(a.Len()-64))
	require.NoError(t, c.Truncate(c.Len()-64))
	require.Zero(t, testing.AllocsPerRun(20, step))
}

func TestOpenSaysWhatIsWrongAndWhatWouldBeValid(t *testing.T) {
	ck, err := checkpoint.Open(filepath.Join("testdata", "llama"))
	require.NoError(t, err)
	defer ck.Close()
	for want, opts := range map[string]model.Options{
		"context of 2000 positions: want 1 to 1024": {Context: 2000},
		"context of -1":           {Context: -1},
		"budget of -5":            {KVBudget: -5},
		"budget of 5 bytes, want": {KVBudget: 5},
		"room for -1 sequences":   {Sequences: -1},
		"room for 65537":          {Sequences: 1<<16 + 1},
		"quantize(9)":             {Quantize: 9},
	} {
		_, err := model.Open(canon.New(), ck, opts)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, ck.Path())
	}
	_, err = model.ParseQuantize("q5")
	require.ErrorContains(t, err, `quantize "q5": want none, q8_0 or q4_0`)
	for _, q := range []model.Quantize{model.QuantizeDefault, model.QuantizeNone, model.QuantizeQ8_0, model.QuantizeQ4_0} {
		got, err := model.ParseQuantize(q.String())
		require.NoError(t, err)
		require.Equal(t, q, got)
	}
}

func TestTheDefaultBudgetHasRoomForTheSequencesAskedForButHasAnEnd(t *testing.T) {
	budget := func(sequences int) int64 {
		return fixture(t, canon.New(), "llama", model.Options{Context: 100, Sequences: sequences}).Cache().Stats().Budget
	}
	require.Equal(t, budget(2), budget(0))
	require.Equal(t, 5*budget(2), budget(10))
	require.LessOrEqual(t, budget(1<<16), int64(4<<30))
}

func TestSpecDescribesTheCheckpointAsOpened(t *testing.T) {
	var done, total int64
	m := fixture(t, canon.New(), "gemma3", model.Options{Context: 60, Progress: func(d, all int64) {
		require.LessOrEqual(t, done, d)
		done, total = d, all
	}})
	s := m.Spec()
	require.Equal(t, []int{24, 24, 0}, s.Windows)
	require.Equal(t, 60, s.Context)
	require.Equal(t, 1024, s.Trained)
	require.Equal(t, 96, s.Vocab)
	require.Equal(t, []int{2}, s.EOS)
	require.Equal(t, total, done)
	const perLayer = 32*(64+2*16) + 64*32 + 3*32*64
	require.Equal(t, int64(3*perLayer+96*32), s.MACs)
	require.Positive(t, s.Bytes)

	narrow := fixture(t, canon.New(), "gemma3", model.Options{Context: 24})
	require.Equal(t, []int{0, 0, 0}, narrow.Spec().Windows, "a window as wide as the context hides nothing")
	require.Len(t, narrow.Cache().Config().Groups, 1)
}
