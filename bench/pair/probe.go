package pair

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"surmise/bench"
	"surmise/bench/recording"
	"surmise/bench/replay"
	"surmise/drafter"
	"surmise/model"
	"surmise/sampler"
	"surmise/verify"
)

// Probe is what a teacher-forced pass over recorded streams shows of a drafter:
// at every position it is asked for a proposal, which is not used.
type Probe struct {
	// Positions is how many were looked at.
	Positions int `json:"positions"`
	// Agreement is the share of positions where the first token proposed was the
	// stream's; of those where something was proposed, for Proposed of them.
	Agreement float64 `json:"agreement"`
	Proposed  int     `json:"proposed"`
	// Overlap is the mean of Σ min(p, q) = 1 − TV(p, q) of the target's and the
	// drafter's distributions at temperature 1, over Compared positions. It is
	// the chance that rejection sampling accepts a token (Leviathan et al., Fast
	// Inference from Transformers via Speculative Decoding, 2023, theorem 3.5).
	Overlap  float64 `json:"overlap,omitempty"`
	Compared int     `json:"overlap_positions"`
	// Draft are the times of drafting, in the machine's speed of the costs given.
	Draft replay.DraftCosts `json:"-"`
}

// ProbeOptions say how much is looked at.
type ProbeOptions struct {
	// Tokens is how many positions at most, PerItem of one stream.
	Tokens, PerItem int
	// Env is what samplers know of the target.
	Env   sampler.Env
	Costs *bench.Costs
	Now   func() time.Time
}

// spy takes the logits that a drafter passes through its chain.
type spy struct {
	logits []float32
	fresh  bool
}

// Process implements sampler.Processor.
func (s *spy) Process(logits []float32, _ []int32) error {
	if !s.fresh {
		s.logits, s.fresh = append(s.logits[:0], logits...), true
	}
	return nil
}

// forced is a verify.Chain that draws the recorded stream and keeps the logits.
type forced struct {
	stream []int32
	at     int
	logits []float32
}

func (f *forced) ArgmaxOnly() bool { return false }
func (f *forced) Accept(int32)     { f.at++ }
func (f *forced) Sample(logits []float32) (sampler.Draw, error) {
	f.logits = append(f.logits[:0], logits...)
	return sampler.Draw{Token: f.stream[f.at]}, nil
}

// prober is a pass under way.
type prober struct {
	target model.Target
	d      drafter.Drafter
	o      ProbeOptions
	spy    spy

	out     Probe
	agreed  int
	overlap float64
	draft   map[int][]float64 // seconds by number proposed
	first   []float64         // seconds more per prompt token
	plain   []float64         // seconds of plain forwards
	observe float64           // seconds of being told of all rounds
	widths  []int
}

// Measure makes the pass. The drafter is bound to the target.
func Measure(ctx context.Context, target model.Target, d drafter.Drafter, items []*recording.Item, o ProbeOptions) (Probe, error) {
	p := &prober{target: target, d: d, o: o, draft: map[int][]float64{}}
	for _, w := range []int{1, 2, 4, 8} {
		if w <= d.Contract().MaxWidth {
			p.widths = append(p.widths, w)
		}
	}
	for _, i := range items {
		if p.out.Positions >= o.Tokens {
			break
		}
		if err := p.item(ctx, i); err != nil {
			return p.out, fmt.Errorf("probe %s on item %s: %w", d.Contract().Kind, i.ID, err)
		}
	}
	p.finish()
	return p.out, nil
}

// item goes through one stream.
func (p *prober) item(ctx context.Context, i *recording.Item) (err error) {
	seq := p.target.Cache().Open()
	defer seq.Close()
	ds, err := p.d.Open(drafter.Opening{Tokens: i.Prompt, Pages: seq, Fresh: true})
	if err != nil {
		return err
	}
	defer func() {
		if e := ds.Close(); err == nil {
			err = e
		}
	}()
	params := sampler.Default()
	seed := i.Seed
	params.Seed = &seed
	env := p.o.Env
	env.Processor = &p.spy
	chain, err := sampler.NewChain(params, env, i.Prompt, 0)
	if err != nil {
		return err
	}
	defer chain.Release()

	stream := &forced{stream: i.Tokens}
	v := verify.New(p.target, p.o.Now)
	row := verify.Row{Seq: seq, Draft: ds, Chain: stream, Known: i.Prompt, Emit: func(t verify.Token) bool {
		chain.Accept(t.Token)
		return true
	}}
	ask := drafter.Row{Seq: ds, Chain: chain}
	for n := 0; stream.at < len(i.Tokens)-1 && n < p.o.PerItem; n++ {
		if n > 0 {
			ask.Position, ask.Known = seq.Len(), row.Known
			ask.Budget = min(p.widths[n%len(p.widths)], p.target.Spec().Context-seq.Len()-1)
			p.ask(ctx, &ask, n == 1)
			if ask.Err != nil {
				return ask.Err
			}
		}
		if err := v.Round(ctx, []*verify.Row{&row}); err != nil {
			return err
		}
		if row.Err != nil || row.DraftErr != nil {
			return fmt.Errorf("round: %w", firstOf(row.Err, row.DraftErr))
		}
		if n > 0 {
			p.compare(&ask, row.Pending, stream.logits, v.Cost())
		}
		row.Known = []int32{row.Pending}
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

// ask asks for a proposal and times it.
func (p *prober) ask(ctx context.Context, ask *drafter.Row, first bool) {
	p.spy.fresh = false
	start := p.o.Now()
	drafter.Propose(ctx, []*drafter.Row{ask})
	took := p.o.Now().Sub(start).Seconds()
	switch n := len(ask.Proposal); {
	case n == 0:
	case first:
		// What reading the prompt took comes out when the steps are known.
		p.first = append(p.first, took/float64(ask.Position))
	default:
		p.draft[n] = append(p.draft[n], took)
	}
}

// compare looks at the proposal and at both distributions.
func (p *prober) compare(ask *drafter.Row, said int32, logits []float32, cost drafter.Cost) {
	p.plain = append(p.plain, cost.Verify.Seconds())
	p.observe += cost.Draft.Seconds()
	p.out.Positions++
	if len(ask.Proposal) > 0 {
		p.out.Proposed++
		if p.agrees(ask, said) {
			p.agreed++
		}
	}
	if p.spy.fresh {
		p.overlap += overlap(logits, p.spy.logits)
		p.out.Compared++
	}
}

// agrees tells whether the drafter's choice without noise is what was said.
func (p *prober) agrees(ask *drafter.Row, said int32) bool {
	if !p.spy.fresh {
		return ask.Proposal[0] == said
	}
	best := 0
	for i, z := range p.spy.logits {
		if z > p.spy.logits[best] {
			best = i
		}
	}
	return int32(best) == said
}

// overlap is Σ min(p, q) of the softmaxes of two rows of logits.
func overlap(a, b []float32) float64 {
	za, zb := normalizer(a), normalizer(b)
	sum := 0.0
	for i := range a {
		sum += min(math.Exp(float64(a[i])-za), math.Exp(float64(b[i])-zb))
	}
	return sum
}

// normalizer is the logarithm of the sum of exponentials.
func normalizer(z []float32) float64 {
	top := slices.Max(z)
	sum := 0.0
	for _, x := range z {
		sum += math.Exp(float64(x - top))
	}
	return float64(top) + math.Log(sum)
}

// finish makes shares and times of the sums. Times are scaled to the speed the
// machine had when the costs were measured.
func (p *prober) finish() {
	if p.out.Proposed > 0 {
		p.out.Agreement = float64(p.agreed) / float64(p.out.Proposed)
	}
	if p.out.Compared > 0 {
		p.out.Overlap = p.overlap / float64(p.out.Compared)
	}
	scale := 1.0
	if now, then := bench.Quantile(p.plain, 0.5), p.o.Costs.Forward(1, 128).Seconds(); now > 0 && then > 0 {
		scale = then / now
	}
	steps := map[int]time.Duration{}
	for n, took := range p.draft {
		steps[n] = time.Duration(bench.Quantile(took, 0.5) * scale * float64(time.Second))
	}
	prompt := time.Duration(bench.Quantile(p.first, 0.5) * scale * float64(time.Second))
	observe := time.Duration(p.observe / float64(max(p.out.Positions, 1)) * scale * float64(time.Second))
	p.out.Draft = replay.DraftCosts{Steps: steps, PromptToken: prompt, Observe: observe}
}
