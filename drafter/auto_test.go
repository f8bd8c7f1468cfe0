package drafter_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/model"
)

// simulated is a world of virtual time: a target with a known cost curve and a
// drafter whose proposals survive with a known chance.
type simulated struct {
	rng     *rand.Rand
	verify  func(tokens int) time.Duration
	draft   func(steps int) time.Duration
	chance  func(position int) float64
	reports float64 // the confidence the drafter states; 0 states its true chance
	noise   float64 // relative noise of every measured time
	match   int
	reads   bool // hidden states
	rested  int  // rounds in which rows rested
}

func (w *simulated) time(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + w.noise*(2*w.rng.Float64()-1)))
}

type simulatedDrafter struct {
	drafter.Drafter
	proposes drafter.Proposing
	reads    bool
}

func (d simulatedDrafter) Contract() drafter.Contract {
	c := drafter.Contract{Kind: "simulated", Proposes: d.proposes}
	if d.reads {
		c.Inputs.Layers = []int{1}
	}
	return c
}
func (simulatedDrafter) Bind(model.Target) error          { return nil }
func (simulatedDrafter) Observe([]*drafter.Outcome) error { return nil }
func (simulatedDrafter) Propose(context.Context, []*drafter.Row) error {
	return nil
}

type simulatedSeq struct {
	drafter.Seq
	d simulatedDrafter
}

func (s *simulatedSeq) Drafter() drafter.Drafter { return s.d }

// run decodes tokens for a batch of rows under a policy and returns the virtual
// time of it and that of plain decoding.
func (w *simulated) run(width drafter.Width, rows, tokens int) (spent, plain time.Duration) {
	seqs := make([]*simulatedSeq, rows)
	at := make([]int, rows)
	asks := make([]*drafter.Row, rows)
	for i := range seqs {
		seqs[i], asks[i] = new(simulatedSeq), new(drafter.Row)
		seqs[i].d.reads = w.reads
		if w.match > 0 {
			seqs[i].d.proposes = drafter.ByCopy
		}
	}
	emitted := 0
	for emitted < tokens*rows {
		var outcomes []*drafter.Outcome
		for i, r := range asks {
			r.Reset()
			r.Seq, r.Position, r.Known, r.Budget, r.Rest = seqs[i], at[i], []int32{1}, drafter.MaxWidth, false
		}
		width.Ask(asks)
		for _, r := range asks {
			if r.Rest {
				w.rested++
			}
		}
		steps := 0
		right := make([]int, rows)
		for i, r := range asks {
			for j := range r.Budget {
				r.Proposal = append(r.Proposal, 7)
				c := w.chance(j)
				if w.match == 0 {
					stated := c
					if w.reports > 0 {
						stated = w.reports
					}
					r.Confidence = append(r.Confidence, float32(stated))
				}
				if right[i] == j && w.rng.Float64() < c {
					right[i]++
				}
			}
			r.Match = w.match
			steps = max(steps, len(r.Proposal))
		}
		cost := drafter.Cost{Rows: rows, Draft: w.time(w.draft(steps))}
		width.Trim(asks)
		for i, r := range asks {
			accepted := min(right[i], len(r.Proposal))
			o := &drafter.Outcome{Seq: seqs[i], Position: at[i], Committed: []int32{1}, Pending: 9, Accepted: accepted}
			for range accepted {
				o.Committed = append(o.Committed, 7)
			}
			// The target goes on as the proposal said, as far as that was right.
			if accepted < right[i] {
				o.Pending = 7
			}
			cost.Tokens += 1 + len(r.Proposal)
			at[i] += 1 + accepted
			emitted += 1 + accepted
			outcomes = append(outcomes, o)
		}
		cost.Verify = w.time(w.verify(cost.Tokens))
		width.Learn(outcomes, cost)
		spent += w.draft(steps) + w.verify(cost.Tokens)
	}
	return spent, time.Duration(float64(emitted)/float64(rows)) * w.verify(rows)
}

// curve is a forward that costs little more for a few rows.
func curve(perRow float64) func(int) time.Duration {
	return func(n int) time.Duration {
		return time.Duration(float64(10*time.Millisecond) * (1 + perRow*float64(n-1)))
	}
}

func table(f func(int) time.Duration) map[int]time.Duration {
	t := map[int]time.Duration{}
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		t[n] = f(n)
	}
	return t
}

func free(int) time.Duration { return 0 }

func costly(share float64) func(int) time.Duration {
	return func(steps int) time.Duration {
		return time.Duration(share * float64(steps) * float64(10*time.Millisecond))
	}
}

func always(p float64) func(int) float64 { return func(int) float64 { return p } }

func TestGivenNothingIsEverRightThenAutoCostsAtMostTwoPercent(t *testing.T) {
	for name, w := range map[string]simulated{
		"a copy that claims long matches":       {verify: curve(0.1), draft: free, chance: always(0), match: 12},
		"a copy on a target of no free rows":    {verify: curve(0.9), draft: free, chance: always(0), match: 3},
		"a cheap drafter":                       {verify: curve(0.1), draft: costly(0.05), chance: always(0), reports: 0.9},
		"a drafter as costly as its target":     {verify: curve(0.1), draft: costly(1), chance: always(0), reports: 0.9},
		"a drafter of a fifth, noisy machine":   {verify: curve(0.1), draft: costly(0.2), chance: always(0), reports: 0.6, noise: 0.3},
		"hopeless but not quite, dear to draft": {verify: curve(0.3), draft: costly(0.5), chance: always(0.1), reports: 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				w.rng = rand.New(rand.NewPCG(seed, 1))
				spent, plain := w.run(drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth), 1, 512)
				require.LessOrEqual(t, spent.Seconds(), 1.02*plain.Seconds(), "seed %d", seed)
			}
		})
	}
}

// What was won on one text must not be lost on the next.
func TestGivenNothingIsRightAfterATextThatPaidThenAutoCostsAtMostTwoPercent(t *testing.T) {
	for name, w := range map[string]simulated{
		"a cheap drafter":      {verify: curve(0.1), draft: costly(0.05), noise: 0.3},
		"a drafter of a third": {verify: curve(0.2), draft: costly(0.33), noise: 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				w.rng = rand.New(rand.NewPCG(seed, 6))
				auto := drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth)
				w.chance = always(0.9)
				spent, plain := w.run(auto, 1, 512)
				require.Less(t, spent, plain)
				w.chance, w.reports = always(0), 0.5
				spent, plain = w.run(auto, 1, 512)
				require.LessOrEqual(t, spent.Seconds(), 1.02*plain.Seconds(), "seed %d", seed)
				w.reports = 0
			}
		})
	}
}

func TestGivenEverythingIsRightThenAutoIsNearTheBestFixedWidth(t *testing.T) {
	for name, w := range map[string]simulated{
		"a copy":               {verify: curve(0.05), draft: free, chance: always(0.98), match: 20},
		"a draft model":        {verify: curve(0.05), draft: costly(0.1), chance: always(0.9)},
		"a fair draft model":   {verify: curve(0.1), draft: costly(0.1), chance: always(0.7)},
		"one that understates": {verify: curve(0.1), draft: costly(0.05), chance: always(0.8), reports: 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			w.rng = rand.New(rand.NewPCG(1, 2))
			best := time.Duration(1 << 62)
			for _, k := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
				spent, plain := w.run(drafter.Fixed(k), 1, 4000)
				best = min(best, time.Duration(float64(spent)/plain.Seconds()))
			}
			spent, plain := w.run(drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth), 1, 4000)
			auto := spent.Seconds() / plain.Seconds()
			require.LessOrEqual(t, auto, 1.15*best.Seconds())
			require.Less(t, auto, 0.8)
		})
	}
}

func TestGivenAFullBatchThenSpeculationFades(t *testing.T) {
	// Rows beyond the eighth cost their full price, as on a machine whose
	// arithmetic is used up.
	verify := func(n int) time.Duration {
		return time.Duration(float64(10*time.Millisecond) * (1 + 0.02*float64(n-1) + 0.12*float64(max(n-8, 0))))
	}
	w := simulated{verify: verify, draft: costly(0.02), chance: always(0.6)}
	share := func(rows int) float64 {
		w.rng = rand.New(rand.NewPCG(3, 4))
		spent, plain := w.run(drafter.NewAuto(drafter.NewCosts(table(verify)), drafter.MaxWidth), rows, 600)
		return spent.Seconds() / plain.Seconds()
	}
	one, many := share(1), share(32)
	require.Less(t, one, 0.7)
	require.LessOrEqual(t, many, 1.02)
}

func TestGivenNoTableThenAutoStillNeverLoses(t *testing.T) {
	w := simulated{verify: curve(0.8), draft: costly(0.3), chance: always(0.2), noise: 0.2}
	for seed := range uint64(10) {
		w.rng = rand.New(rand.NewPCG(seed, 9))
		spent, plain := w.run(drafter.NewAuto(drafter.NewCosts(nil), drafter.MaxWidth), 1, 512)
		require.LessOrEqual(t, spent.Seconds(), 1.02*plain.Seconds(), "seed %d", seed)
	}
}

// A machine that stalls now and then must not make the policy believe in drafts
// that cost nothing.
func TestGivenStallsThenAutoNeitherGetsStuckNorLoses(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		stall := func(d time.Duration) time.Duration {
			if rng.IntN(10) == 0 {
				return d * time.Duration(2+rng.IntN(20))
			}
			return d
		}
		// A pass fills a whole block, so that the first proposal costs most.
		verify, draft := curve(0.5), func(steps int) time.Duration { return time.Duration(min(steps, 1)) * 6 * time.Millisecond }
		w := simulated{
			verify: func(n int) time.Duration { return stall(verify(n)) }, draft: func(k int) time.Duration { return stall(draft(k)) },
			chance: always(0.05), reports: 0.6, rng: rng,
		}
		auto := drafter.NewAuto(drafter.NewCosts(map[int]time.Duration{1: verify(1), 2: verify(1), 8: verify(2)}), drafter.MaxWidth)
		w.run(auto, 1, 200)
		// What it has learned holds on the machine without stalls.
		w.verify, w.draft = verify, draft
		spent, plain := w.run(auto, 1, 2000)
		require.LessOrEqual(t, spent.Seconds(), 1.02*plain.Seconds(), "seed %d", seed)
	}
}

// The first time a drafter is asked its memory is cold; what that takes is no
// reason not to ask again.
func TestGivenASlowFirstDraftThenAutoStillFindsThatDraftingPays(t *testing.T) {
	for seed := range uint64(20) {
		first := true
		w := simulated{verify: curve(0.2), chance: always(0.95), rng: rand.New(rand.NewPCG(seed, 8))}
		w.draft = func(steps int) time.Duration {
			d := costly(0.2)(steps)
			if first && steps > 0 {
				first = false
				d *= 40
			}
			return d
		}
		auto := drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth)
		w.run(auto, 1, 64)
		spent, plain := w.run(auto, 1, 256)
		require.Less(t, spent.Seconds(), 0.8*plain.Seconds(), "seed %d", seed)
	}
}

// A kind that reads hidden states and brings nothing is spared reading them, and
// comes back when the text becomes easy.
func TestGivenNothingIsRightThenRowsRestAndWakeAgain(t *testing.T) {
	for seed := range uint64(20) {
		w := simulated{verify: curve(0.2), draft: costly(0.2), chance: always(0), reports: 0.5, reads: true, rng: rand.New(rand.NewPCG(seed, 4))}
		auto := drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth)
		w.run(auto, 1, 1000)
		require.Greater(t, w.rested, 700, "seed %d", seed)
		w.rested, w.chance, w.reports = 0, always(0.9), 0
		spent, plain := w.run(auto, 1, 4000)
		require.Less(t, spent.Seconds(), 0.85*plain.Seconds(), "seed %d", seed)

		w.reads, w.rested, w.chance, w.reports = false, 0, always(0), 0.5
		w.run(drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth), 1, 1000)
		require.Zero(t, w.rested, "who reads none has nothing to be spared")
	}
}

func TestDecidingAllocatesNothing(t *testing.T) {
	w := simulated{verify: curve(0.1), draft: costly(0.1), chance: always(0.6), rng: rand.New(rand.NewPCG(1, 1))}
	auto := drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth)
	seq := new(simulatedSeq)
	row := &drafter.Row{Seq: seq, Proposal: make([]int32, 0, 64), Confidence: make([]float32, 0, 64)}
	rows := []*drafter.Row{row}
	o := &drafter.Outcome{Seq: seq, Committed: []int32{1}, Pending: 9}
	outcomes := []*drafter.Outcome{o}
	position := 0
	round := func() {
		row.Reset()
		row.Position, row.Known, row.Budget = position, o.Committed, drafter.MaxWidth
		auto.Ask(rows)
		for range row.Budget {
			row.Proposal, row.Confidence = append(row.Proposal, 7), append(row.Confidence, 0.6)
		}
		auto.Trim(rows)
		o.Position, o.Proposed = position, row.Proposal
		auto.Learn(outcomes, drafter.Cost{Rows: 1, Tokens: 1 + len(row.Proposal), Verify: w.verify(1 + len(row.Proposal)), Draft: w.draft(len(row.Proposal))})
		position++
	}
	for range 300 {
		round()
	}
	require.Zero(t, testing.AllocsPerRun(500, round))
}

func BenchmarkAutoRound(b *testing.B) {
	for name, chance := range map[string]float64{"paused": 0, "drafting": 0.8} {
		b.Run(name, func(b *testing.B) {
			w := simulated{verify: curve(0.1), draft: costly(0.1), chance: always(chance), reports: 0.5, rng: rand.New(rand.NewPCG(1, 1))}
			b.ReportAllocs()
			w.run(drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth), 1, b.N)
		})
	}
}

// BenchmarkAutoEngages tells how near the automatic width comes to the best fixed
// one, which it does not know: in the first 256 tokens of a drafter that was never
// asked before, and in later texts of as many.
func BenchmarkAutoEngages(b *testing.B) {
	for name, w := range map[string]simulated{
		"head of a small target, 0.88 right": {verify: curve(0.3), draft: costly(0.33), chance: always(0.88)},
		"head, 0.85 right":                   {verify: curve(0.12), draft: costly(0.33), chance: always(0.85)},
		"head, 0.6 right":                    {verify: curve(0.12), draft: costly(0.33), chance: always(0.6)},
		"draft model of a tenth, 0.8 right":  {verify: curve(0.1), draft: costly(0.1), chance: always(0.8)},
		"draft model of a tenth, 0.5 right":  {verify: curve(0.1), draft: costly(0.1), chance: always(0.5)},
	} {
		b.Run(name, func(b *testing.B) {
			w.noise = 0.3
			best := 0.0
			for _, k := range []int{1, 2, 3, 4, 6, 8, 12} {
				w.rng = rand.New(rand.NewPCG(7, 7))
				spent, plain := w.run(drafter.Fixed(k), 1, 20000)
				best = max(best, plain.Seconds()/spent.Seconds())
			}
			var spent, plain [2]time.Duration
			for seed := range uint64(40 * b.N) {
				w.rng = rand.New(rand.NewPCG(seed, 3))
				auto := drafter.NewAuto(drafter.NewCosts(table(w.verify)), drafter.MaxWidth)
				for text := range 8 {
					s, p := w.run(auto, 1, 256)
					spent[min(text, 1)] += s
					plain[min(text, 1)] += p
				}
			}
			b.ReportMetric(best, "best-fixed")
			b.ReportMetric(plain[0].Seconds()/spent[0].Seconds(), "first-text")
			b.ReportMetric(plain[1].Seconds()/spent[1].Seconds(), "later-texts")
		})
	}
}
