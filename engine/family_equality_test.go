package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/demo"
	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/fullmodel"
	"surmise/kvcache"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify"
)

// penalized are the parameters with every penalty on.
func penalized(p sampler.Params) sampler.Params {
	p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty, p.PenaltyLastN = 1.1, 0.2, 0.1, 40
	p.DRYMultiplier = 0.5
	return p
}

func TestEveryKindEmitsTheBytesOfPlainDecoding(t *testing.T) {
	f := openKinds(t)
	for _, width := range []string{"1", "2", "4", "8", "auto"} {
		t.Run("width "+width, func(t *testing.T) {
			for _, temperature := range []float64{0, 0.7, 1, 1.5} {
				for _, penalties := range []bool{false, true} {
					for seed := range uint64(2) {
						f.batch(t, width, temperature, penalties, seed)
					}
				}
			}
		})
	}
}

// batch decodes with each kind alone, then with all kinds as rows of one batch.
func (f *family) batch(t *testing.T, width string, temperature float64, penalties bool, seed uint64) {
	var batch []engine.Request
	var want []engine.Answer
	engineOf := func() *engine.Engine {
		w := drafter.Width(drafter.NewAuto(drafter.NewCosts(nil), drafter.MaxWidth))
		if k, err := strconv.Atoi(width); err == nil {
			w = drafter.Fixed(k)
		}
		return f.engine(engine.Options{Width: w, Chunk: 48})
	}
	about := fmt.Sprintf("temperature %v, penalties %v, seed %d", temperature, penalties, seed)
	for i, k := range f.kinds {
		r := engine.Request{Prompt: f.prose(44 + 7*i), Params: params(temperature, seed, 28), Fresh: true}
		if penalties {
			r.Params = penalized(r.Params)
		}
		want = append(want, f.plain(t, r))
		r.Drafter = f.ready(t, k, r)
		batch = append(batch, r)
		got := one(t, engineOf(), r)
		require.Equal(t, want[i].IDs(), got.IDs(), "%s alone, %s", k.name, about)
		same(t, want[i], got)
		well(t, got)
	}
	for i, got := range generate(t, engineOf(), batch...) {
		require.Equal(t, want[i].IDs(), got[0].IDs(), "%s in a batch, %s", f.kinds[i].name, about)
		same(t, want[i], got[0])
		well(t, got[0])
	}
}

func TestSwappingTheDrafterInTheMiddleOfAStreamChangesNothing(t *testing.T) {
	f := openKinds(t)
	for _, temperature := range []float64{0, 0.9} {
		r := engine.Request{Prompt: f.prose(90), Params: penalized(params(temperature, 3, 96))}
		r.Params.IgnoreEOS = true
		want := f.plain(t, r).IDs()
		for _, k := range f.kinds {
			f.ready(t, k, r)
		}
		for first := range f.kinds {
			s := &swapping{f: f, t: t, request: r}
			s.open()
			// Every kind takes over in turn, beginning with another one.
			for i := range f.kinds {
				k := f.kinds[(first+i)%len(f.kinds)]
				s.decode(k.drafter, 16*(i+1), 1+i)
			}
			require.Equal(t, want, s.out)
			s.close()
		}
	}
}

// swapping decodes a stream with one drafter after the other.
type swapping struct {
	f       *family
	t       testing.TB
	request engine.Request

	chain *sampler.Chain
	seq   *kvcache.Seq
	out   []int32
	todo  []int32
}

func (s *swapping) open() {
	var err error
	s.chain, err = sampler.NewChain(s.request.Params, s.f.in.Engine.Env(), s.request.Prompt, 0)
	require.NoError(s.t, err)
	s.seq, s.todo = s.f.in.Model.Cache().Open(), s.request.Prompt
}

func (s *swapping) close() {
	s.chain.Release()
	s.seq.Close()
}

// decode opens a drafter in the midst of the stream and decodes with it up to a
// number of tokens.
func (s *swapping) decode(d drafter.Drafter, upTo, width int) {
	seq, err := d.Open(drafter.Opening{
		Tokens: append(slices.Clone(s.request.Prompt), s.out...), Cached: s.seq.Len(), Pages: s.seq, Fresh: true,
	})
	require.NoError(s.t, err)
	for len(s.out) < upTo {
		row := verify.Row{Seq: s.seq, Known: s.todo, Chain: s.chain, Draft: seq, Emit: func(k verify.Token) bool {
			s.out = append(s.out, k.Token)
			return len(s.out) < upTo
		}}
		if len(s.out) > 0 {
			ask := drafter.Row{Seq: seq, Position: s.seq.Len(), Known: s.todo, Budget: min(width, upTo-len(s.out)-1), Chain: s.chain}
			drafter.Propose(context.Background(), []*drafter.Row{&ask})
			require.NoError(s.t, ask.Err)
			row.Proposal = ask.Proposal
		}
		require.NoError(s.t, verify.Round(context.Background(), s.f.in.Model, []*verify.Row{&row}))
		require.NoError(s.t, row.Err)
		require.NoError(s.t, row.DraftErr)
		require.Equal(s.t, s.seq.Len(), seq.Position(), "the drafter is where the target is")
		require.Equal(s.t, len(s.request.Prompt)+len(s.out)-1, s.seq.Len(), "the cache holds all but the last token")
		s.todo = []int32{row.Pending}
	}
	require.NoError(s.t, seq.Close())
}

func TestEveryAcceptanceCountAcrossPageBorders(t *testing.T) {
	f := openKinds(t)
	r := engine.Request{Prompt: f.prose(57), Params: params(0.8, 5, 90), Fresh: true}
	r.Params.IgnoreEOS = true
	stream := f.stream(t, r)
	for _, width := range []int{1, 2, 4, 8} {
		for right := range width + 1 {
			oracle := newOracle(t, f, func(int) int { return right })
			oracle.Streams = [][]int32{stream}
			got := forced(t, f.engine(engine.Options{Width: drafter.Fixed(width)}), f.plain(t, r), r, oracle)
			require.EqualValues(t, min(right, width), mode(got), "of %d proposals", width)
		}
	}
}

// forced decodes with the oracle and compares with the plain answer. The oracle
// itself checks its position and what it is told after every round.
func forced(t *testing.T, e *engine.Engine, want engine.Answer, r engine.Request, o *draftertest.Oracle) drafter.Tally {
	t.Helper()
	r.Drafter, r.Fresh = o, true
	got := one(t, e, r)
	same(t, want, got)
	well(t, got)
	return got.Finish.Timings.Draft
}

// mode is the number of tokens that most drafts had accepted.
func mode(t drafter.Tally) int {
	best, most := 0, int64(-1)
	for i := 0; i <= drafter.MaxWidth; i++ {
		n := t.Drafts
		if i > 0 {
			n = t.PerPosition[i-1]
		}
		if i < drafter.MaxWidth {
			n -= t.PerPosition[i]
		}
		if n > most {
			best, most = i, n
		}
	}
	return best
}

// letters are the tokens of the fixtures, which have no text.
type letters struct{}

func (letters) VocabSize() int        { return 96 }
func (letters) Piece(id int32) []byte { return []byte{byte(id) + 1} }
func (letters) IsSpecial(int32) bool  { return false }

// The mistake of this test is that of sliding caches that are not rolled back.
func TestEveryAcceptanceCountAcrossTheWrapOfSlidingWindows(t *testing.T) {
	for _, name := range []string{"gemma3", "mistral-window"} {
		m := tiny(t, name, 1)
		r := engine.Request{Prompt: prompt(3, 40), Params: params(0.9, 5, 120), Fresh: true}
		r.Params.IgnoreEOS = true
		want := one(t, engine.New(m, nil, engine.Options{}), r)
		stream := append(slices.Clone(r.Prompt), want.IDs()...)
		for _, width := range []int{1, 2, 4, 8} {
			for right := range width + 1 {
				oracle := &draftertest.Oracle{Streams: [][]int32{stream}, Right: func(int) int { return right }}
				require.NoError(t, oracle.Bind(m))
				forced(t, engine.New(m, nil, engine.Options{Width: drafter.Fixed(width)}), want, r, oracle)
			}
		}
		// A draft model with windows of its own, and copies.
		draft := fullmodel.New(tiny(t, name, 1), letters{}, letters{}, true)
		require.NoError(t, draft.Bind(m))
		lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
		require.NoError(t, err)
		for _, d := range []drafter.Drafter{draft, lookup} {
			for _, width := range []int{1, 3, 8, 32} {
				r.Drafter = d
				got := one(t, engine.New(m, nil, engine.Options{Width: drafter.Fixed(width)}), r)
				same(t, want, got)
				well(t, got)
			}
		}
	}
}

func TestADrafterContextShorterThanTheTargetsEndsDraftingNotTheAnswer(t *testing.T) {
	f := openKinds(t)
	r := engine.Request{Prompt: f.prose(80), Params: params(0, 1, 60), Fresh: true}
	r.Params.IgnoreEOS = true
	for _, k := range []struct{ kind, dir string }{{drafter.FullModel, demo.Draft}, {drafter.DFlash, demo.DFlash}} {
		t.Run(k.kind, func(t *testing.T) {
			d := f.open(k.kind, k.dir, shortened(t, k.dir, "100"), nil)
			got := f.drafted(t, &familyKind{name: k.kind, drafter: d}, r, 4)
			reasons := map[drafter.Reason]int64{}
			for _, x := range got.Finish.Timings.Declines {
				reasons[x.Reason] = x.Rounds
			}
			require.Positive(t, got.Finish.Timings.Draft.Drafts, "it drafts while it can")
			require.Positive(t, reasons["draft_context"], "%v", reasons)
		})
	}
}

func TestDraftersOfAnotherTargetAreRefusedWithTheReason(t *testing.T) {
	f := openKinds(t)
	ck, err := checkpoint.Open(filepath.Join("..", "model", "testdata", "qwen3"))
	require.NoError(t, err)
	dev, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	other, err := model.Open(dev, ck, model.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, other.Close())
		require.NoError(t, dev.Close())
		require.NoError(t, ck.Close())
	})
	for _, k := range f.kinds {
		switch k.name {
		case drafter.MTP, drafter.DFlash, "cascade":
			// The head looks at states of another width, or lives on another device.
			require.ErrorContains(t, k.drafter.Bind(other), "target")
		case drafter.Lookup:
			require.NoError(t, k.drafter.Bind(other), "copies fit every target")
		}
	}
}

// The mistakes of this test are an MTP cache not warmed on long prompts, and a
// cached prefix that loses speculation.
func TestChunksOfThePromptAndCachedPrefixesChangeNoCount(t *testing.T) {
	f := openKinds(t)
	for i, k := range f.kinds {
		if k.name == "cascade" {
			continue // it learns where to switch; its parts are here
		}
		t.Run(k.name, func(t *testing.T) {
			// Each kind has a prompt of its own, so that none is cached without it.
			r := engine.Request{Prompt: f.prose(300)[5*i : 5*i+200], Params: params(0.8, 3, 40)}
			if k.oracle != nil {
				k.dice = nil
				k.oracle.Right = func(position int) int { return position % 5 }
			}
			r.Drafter = f.ready(t, k, r)
			var first *drafter.Tally
			for i, chunk := range []int{256, 64, 7} {
				r.Fresh = true
				e := f.engine(engine.Options{Width: drafter.Fixed(4), Chunk: chunk})
				tally := one(t, e, r).Finish.Timings.Draft
				if i == 0 {
					first = &tally
				}
				require.Equal(t, *first, tally, "chunks of %d", chunk)
			}
			r.Fresh = false
			e := f.engine(engine.Options{Width: drafter.Fixed(4)})
			for i := range 3 {
				tm := one(t, e, r).Finish.Timings
				require.Equal(t, *first, tm.Draft, "the prompt for time %d", i+1)
				if i > 0 {
					require.GreaterOrEqual(t, tm.CachedN, 128)
				}
			}
		})
	}
}
