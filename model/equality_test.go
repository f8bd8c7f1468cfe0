package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute"
	"surmise/compute/canon"
	"surmise/compute/cpu"
	"surmise/kvcache"
	"surmise/model"
)

// device makes a device that must agree with the canon, bit by bit.
type device struct {
	name string
	make func(t testing.TB) compute.Device
}

var devices = []device{
	{"cpu 1 thread", func(t testing.TB) compute.Device { return onCPU(t, 1) }},
	{"cpu 3 threads", func(t testing.TB) compute.Device { return onCPU(t, 3) }},
}

func onCPU(t testing.TB, threads int) compute.Device {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: threads})
	require.NoError(t, err)
	return dev
}

// stream is a text and what decoding it token by token gives: the one truth
// that every other way to compute it is compared with, bit by bit.
type stream struct {
	tokens []int32
	logits [][]uint32 // by position, the bits
	hidden [][]uint32 // of the last block, by position
	layer  int
}

// truths keeps the canon's streams for all tests, since they take a while.
var truths sync.Map

const streamLength = 530

// truth is how the canon decodes a random text of a fixture's vocabulary.
func truth(t testing.TB, name string, opts model.Options, seed uint64) *stream {
	t.Helper()
	type key struct {
		name     string
		quantize model.Quantize
		kv       compute.KVType
		seed     uint64
	}
	k := key{name, opts.Quantize, opts.KV, seed}
	if s, ok := truths.Load(k); ok {
		return s.(*stream)
	}
	s := newStream(t, fixture(t, canon.New(), name, opts), streamLength, seed)
	truths.Store(k, s)
	return s
}

func newStream(t testing.TB, m *model.Model, n int, seed uint64) *stream {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	s := &stream{layer: m.Spec().Layers - 1}
	seq := m.Cache().Open()
	defer seq.Close()
	b := &model.Batch{Rows: make([]model.Row, 1), Hidden: []int{s.layer}}
	for range n {
		token := random.Int32N(int32(m.Spec().Vocab))
		b.Rows[0] = model.Row{Seq: seq, Tokens: []int32{token}, Logits: 1}
		require.NoError(t, m.Forward(b))
		s.tokens = append(s.tokens, token)
		s.logits = append(s.logits, bits(b.Logits(0, 0)))
		s.hidden = append(s.hidden, bits(b.HiddenOf(0, 0).Row(0)))
	}
	return s
}

func bits(v []float32) []uint32 {
	b := make([]uint32, len(v))
	for i, x := range v {
		b[i] = math.Float32bits(x)
	}
	return b
}

// requireBits compares the outputs of a row with the stream: the row's first
// wanted token is the stream's position p, and n of them are the stream's.
func (s *stream) requireBits(t require.TestingT, b *model.Batch, row, p, n int) {
	first := len(b.Rows[row].Tokens) - b.Rows[row].Logits
	for i := range n {
		if !slices.Equal(bits(b.Logits(row, i)), s.logits[p+i]) {
			require.Failf(t, "bits differ", "logits of position %d", p+i)
		}
		if len(b.Hidden) > 0 && !slices.Equal(bits(b.HiddenOf(row, 0).Row(first+i)), s.hidden[p+i]) {
			require.Failf(t, "bits differ", "hidden state of position %d", p+i)
		}
		token, ok := b.Argmax(row, i)
		require.True(t, ok)
		require.Equal(t, canon.Argmax(b.Logits(row, i)), token)
	}
}

// forward continues seq by tokens from the stream, wants all their outputs,
// and compares them.
func (s *stream) forward(t testing.TB, m *model.Model, seq *kvcache.Seq, n int) {
	t.Helper()
	p := seq.Len()
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: s.tokens[p : p+n], Logits: n}}, Hidden: []int{s.layer}}
	require.NoError(t, m.Forward(b))
	s.requireBits(t, b, 0, p, n)
}

// fillWithNaN makes every page of the cache stale in the worst way.
func fillWithNaN(m *model.Model) {
	for g := range m.Cache().Config().Groups {
		kv := m.Cache().KV(g)
		for p := range kv.Spec().Pages {
			kv.FillPage(p, float32(math.NaN()))
		}
	}
}

// poison writes NaN where a sequence's positions from n on are cached, as a
// block does that is about to be rolled back.
func poison(t require.TestingT, m *model.Model, seq *kvcache.Seq, n int) {
	spec := m.Spec()
	width := spec.KVHeads * spec.HeadDim
	rows := seq.Len() - n
	if rows == 0 {
		return
	}
	buf, err := m.Device().Alloc(rows * width)
	require.NoError(t, err)
	for i := range buf.Host() {
		buf.Host()[i] = float32(math.NaN())
	}
	var p compute.Program
	for g, group := range m.Cache().Config().Groups {
		slots := seq.Slots(g, n, nil)
		for l := range group.Layers {
			v := compute.ViewOf(buf, width)
			p.StoreKV(m.Cache().KV(g), l, v, v, rows, slots)
		}
	}
	require.NoError(t, m.Device().Run(&p))
}

// smallCache keeps filling it with NaN cheap.
func smallCache(opts model.Options) model.Options {
	opts.KVBudget = 4 << 20
	return opts
}

// onEveryDevice runs a test for every fixture and device, with the stream as
// the canon decodes it, on a cache full of NaN.
func onEveryDevice(t *testing.T, opts model.Options, test func(t *testing.T, m *model.Model, s *stream)) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			for _, d := range devices {
				t.Run(d.name, func(t *testing.T) {
					m := fixture(t, d.make(t), name, smallCache(opts))
					fillWithNaN(m)
					test(t, m, truth(t, name, opts, 1))
				})
			}
		})
	}
}

func TestPrefillInChunksOfAnySizeGivesTheBitsOfSingleSteps(t *testing.T) {
	onEveryDevice(t, model.Options{}, func(t *testing.T, m *model.Model, s *stream) {
		for _, chunk := range []int{1, 7, 64, len(s.tokens)} {
			seq := m.Cache().Open()
			for seq.Len() < len(s.tokens) {
				s.forward(t, m, seq, min(chunk, len(s.tokens)-seq.Len()))
			}
			seq.Close()
		}
	})
}

func TestCanonItselfDoesNotSeeChunks(t *testing.T) {
	for _, name := range []string{"llama", "gemma3"} {
		s := truth(t, name, model.Options{}, 1)
		m := fixture(t, canon.New(), name, smallCache(model.Options{}))
		fillWithNaN(m)
		seq := m.Cache().Open()
		for _, chunk := range []int{3, 64, streamLength - 67} {
			s.forward(t, m, seq, chunk)
		}
	}
}

func TestBlockOfAnyWidthGivesTheBitsOfSingleSteps(t *testing.T) {
	onEveryDevice(t, model.Options{}, func(t *testing.T, m *model.Model, s *stream) {
		seq := m.Cache().Open()
		defer seq.Close()
		for _, p := range []int{0, 60, 250, 508} { // borders of pages, windows and the canon's chunks of 256
			for seq.Len() < p {
				s.forward(t, m, seq, p-seq.Len())
			}
			for k := 1; k <= 16; k++ {
				s.forward(t, m, seq, k)
				poison(t, m, seq, p)
				require.NoError(t, seq.Truncate(p))
			}
		}
	})
}

func TestOtherWeightAndCacheTypesKeepTheEquality(t *testing.T) {
	for _, opts := range []model.Options{
		{Quantize: model.QuantizeNone, KV: compute.KVF32},
		{Quantize: model.QuantizeQ4_0},
	} {
		for _, name := range []string{"llama-tied", "gemma3"} {
			for _, d := range devices {
				t.Run(fmt.Sprintf("%v %v/%s/%s", opts.Quantize, opts.KV, name, d.name), func(t *testing.T) {
					s := truth(t, name, opts, 1)
					m := fixture(t, d.make(t), name, smallCache(opts))
					fillWithNaN(m)
					seq := m.Cache().Open()
					defer seq.Close()
					for i := 0; seq.Len() < len(s.tokens); i++ {
						s.forward(t, m, seq, min(1+7*i, len(s.tokens)-seq.Len()))
					}
				})
			}
		}
	}
}

// script runs random batches: rows of several sequences, each with some tokens
// of its stream and then some that will be rolled back, forks, and sequences
// that start from published pages.
type script struct {
	t       *rapid.T
	m       *model.Model
	streams []*stream
	seqs    []*kvcache.Seq
	of      []int // the stream a sequence follows
}

func (s *script) batch(*rapid.T) {
	b := &model.Batch{Hidden: []int{s.streams[0].layer}}
	var seqs, good, from []int
	for i, seq := range s.seqs {
		if len(s.seqs) > 1 && rapid.IntRange(0, 2).Draw(s.t, "out of the batch") == 0 {
			continue
		}
		tokens := s.streams[s.of[i]].tokens
		n := rapid.IntRange(0, min(70, len(tokens)-seq.Len())).Draw(s.t, "tokens")
		row := slices.Clone(tokens[seq.Len() : seq.Len()+n])
		for range rapid.IntRange(0, 16).Draw(s.t, "rejected") {
			row = append(row, rapid.Int32Range(0, int32(s.m.Spec().Vocab)-1).Draw(s.t, "token"))
		}
		if len(row) == 0 {
			continue
		}
		b.Rows = append(b.Rows, model.Row{Seq: seq, Tokens: row, Logits: len(row)})
		seqs, good, from = append(seqs, i), append(good, n), append(from, seq.Len())
	}
	require.NoError(s.t, s.m.Forward(b))
	for r, i := range seqs {
		s.streams[s.of[i]].requireBits(s.t, b, r, from[r], good[r])
		poison(s.t, s.m, s.seqs[i], from[r]+good[r])
		require.NoError(s.t, s.seqs[i].Truncate(from[r]+good[r]))
	}
}

func (s *script) start(*rapid.T) {
	if len(s.seqs) > 3 {
		s.t.Skip("enough sequences")
	}
	of := rapid.IntRange(0, len(s.streams)-1).Draw(s.t, "stream")
	n := rapid.SampledFrom([]int{0, 64, 65, 200, 256, 257, 500}).Draw(s.t, "cached prefix")
	s.seqs, s.of = append(s.seqs, s.m.Cache().Match(s.streams[of].tokens[:n])), append(s.of, of)
}

func (s *script) fork(*rapid.T) {
	if len(s.seqs) > 3 || len(s.seqs) == 0 {
		s.t.Skip("no room or nothing to fork")
	}
	i := rapid.IntRange(0, len(s.seqs)-1).Draw(s.t, "sequence")
	f, err := s.seqs[i].Fork()
	require.NoError(s.t, err)
	s.seqs, s.of = append(s.seqs, f), append(s.of, s.of[i])
}

func (s *script) finish(*rapid.T) {
	if len(s.seqs) == 0 {
		s.t.Skip("nothing to close")
	}
	i := rapid.IntRange(0, len(s.seqs)-1).Draw(s.t, "sequence")
	s.seqs[i].Publish()
	s.seqs[i].Close()
	s.seqs, s.of = slices.Delete(s.seqs, i, i+1), slices.Delete(s.of, i, i+1)
}

func TestMixedBatchesForksAndPrefixHitsGiveTheBitsOfSingleSteps(t *testing.T) {
	for _, name := range []string{"llama", "gemma3", "mistral-window"} {
		for _, d := range devices {
			t.Run(fmt.Sprintf("%s/%s", name, d.name), func(t *testing.T) {
				streams := []*stream{truth(t, name, model.Options{}, 1), truth(t, name, model.Options{}, 2)}
				m := fixture(t, d.make(t), name, smallCache(model.Options{}))
				fillWithNaN(m)
				for _, s := range streams {
					seq := m.Cache().Open()
					for seq.Len()+64 <= streamLength {
						s.forward(t, m, seq, 64)
						seq.Publish()
					}
					seq.Close()
				}
				rapid.Check(t, func(t *rapid.T) {
					s := &script{t: t, m: m, streams: streams}
					defer func() {
						for _, seq := range s.seqs {
							seq.Close()
						}
					}()
					t.Repeat(map[string]func(*rapid.T){
						"batch": s.batch, "another batch": s.batch, "start": s.start, "fork": s.fork, "finish": s.finish,
					})
				})
			})
		}
	}
}
