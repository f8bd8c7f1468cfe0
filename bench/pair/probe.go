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
// at many positions it is asked for a proposal, which is not used.
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
	// Env is what samplers know of the target, Params those of the streams: masks
	// and biases apply to both distributions.
	Env    sampler.Env
	Params sampler.Params
	Costs  *bench.Costs
	Now    func() time.Time
}

// spy takes the logits that are passed through a chain, and bans what the chain
// bans only behind it.
type spy struct {
	banned []int32
	logits []float32
	fresh  bool // the first since it was last set to false are there
}

// Process implements sampler.Processor.
func (s *spy) Process(logits []float32, _ []int32) error {
	if !s.fresh {
		s.logits, s.fresh = append(s.logits[:0], logits...), true
		for _, id := range s.banned {
			s.logits[id] = float32(math.Inf(-1))
		}
	}
	return nil
}

// forced is a verify.Chain that draws the recorded stream, and passes the logits
// through a chain with a spy.
type forced struct {
	stream []int32
	at     int
	chain  *sampler.Chain
	spy    *spy
}

func (f *forced) ArgmaxOnly() bool { return false }

func (f *forced) Accept(token int32) {
	f.at++
	f.chain.Accept(token)
}

func (f *forced) Sample(logits []float32) (sampler.Draw, error) {
	f.spy.fresh = false
	_, err := f.chain.Sample(logits)
	return sampler.Draw{Token: f.stream[f.at]}, err
}

// chain makes a chain of a stream that draws at temperature 1, with the masks and
// biases of the stream's own parameters and a spy behind them.
func (p *prober) chain(i *recording.Item, s *spy) (*sampler.Chain, error) {
	own, params := &p.o.Params, sampler.Default()
	seed := i.Seed
	params.Seed, params.MaxNewTokens = &seed, i.Limit
	params.IgnoreEOS, params.MinNewTokens, params.StopTokenIDs = own.IgnoreEOS, min(own.MinNewTokens, i.Limit), own.StopTokenIDs
	params.LogitBias, params.LanguageBias, params.SuppressTokens = own.LogitBias, own.LanguageBias, own.SuppressTokens
	s.banned = append(s.banned[:0], own.SuppressTokens...)
	if own.IgnoreEOS {
		s.banned = append(s.banned, p.o.Env.EOS...)
	}
	env := p.o.Env
	env.Processor = s
	return sampler.NewChain(params, env, i.Prompt, 0)
}

// prober is a pass under way.
type prober struct {
	target model.Target
	d      drafter.Drafter
	o      ProbeOptions
	// drafts and targets see what the two pass through their chains.
	drafts, targets spy

	out     Probe
	agreed  int
	overlap float64
	draft   map[asked][]float64 // seconds of proposing
	first   []float64           // seconds more per prompt token
	plain   []float64           // seconds of plain forwards
	observe float64             // seconds of being told of all rounds
	widths  []int
	asks    int
}

// asked is a kind of question: for how many tokens, how many tokens after the
// question before it.
type asked struct{ proposed, behind int }

// gaps are the distances between questions, in turn: a drafter that has not been
// asked for some tokens has them to take in first, as after a round that
// accepted some.
var gaps = []int{1, 1, 1, 4}

// Measure makes the pass. The drafter is bound to the target.
func Measure(ctx context.Context, target model.Target, d drafter.Drafter, items []*recording.Item, o ProbeOptions) (Probe, error) {
	p := &prober{target: target, d: d, o: o, draft: map[asked][]float64{}}
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
	chain, err := p.chain(i, &p.drafts)
	if err != nil {
		return err
	}
	defer chain.Release()
	targets, err := p.chain(i, &p.targets)
	if err != nil {
		return err
	}
	defer targets.Release()

	stream := &forced{stream: i.Tokens, chain: targets, spy: &p.targets}
	v := verify.New(p.target, p.o.Now)
	row := verify.Row{Seq: seq, Draft: ds, Chain: stream, Known: i.Prompt, Emit: func(t verify.Token) bool {
		chain.Accept(t.Token)
		return true
	}}
	ask := drafter.Row{Seq: ds, Chain: chain}
	last, next := 0, 1
	for n := 0; stream.at < len(i.Tokens)-1 && n < p.o.PerItem; n++ {
		asks := n == next
		if asks {
			ask.Position, ask.Known = seq.Len(), row.Known
			ask.Budget = min(p.widths[p.asks%len(p.widths)], p.target.Spec().Context-seq.Len()-1)
			p.ask(ctx, &ask, n == 1, n-last)
			if ask.Err != nil {
				return ask.Err
			}
			last, next = n, n+gaps[p.asks/len(p.widths)%len(gaps)]
			p.asks++
		}
		if err := v.Round(ctx, []*verify.Row{&row}); err != nil {
			return err
		}
		if row.Err != nil || row.DraftErr != nil {
			return fmt.Errorf("round: %w", firstOf(row.Err, row.DraftErr))
		}
		if n > 0 {
			p.plain = append(p.plain, v.Cost().Verify.Seconds())
			p.observe += v.Cost().Draft.Seconds()
		}
		if asks {
			p.compare(&ask, row.Pending)
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
func (p *prober) ask(ctx context.Context, ask *drafter.Row, first bool, behind int) {
	p.drafts.fresh = false
	start := p.o.Now()
	drafter.Propose(ctx, []*drafter.Row{ask})
	took := p.o.Now().Sub(start).Seconds()
	switch n := len(ask.Proposal); {
	case n == 0 || ask.Match > 0 && ask.Source != "": // nothing, or a copy of a composed kind
	case first:
		// What reading the prompt took comes out when the steps are known.
		p.first = append(p.first, took/float64(ask.Position))
	default:
		p.draft[asked{n, behind}] = append(p.draft[asked{n, behind}], took)
	}
}

// compare looks at the proposal and at both distributions.
func (p *prober) compare(ask *drafter.Row, said int32) {
	p.out.Positions++
	if len(ask.Proposal) > 0 {
		p.out.Proposed++
		if p.agrees(ask, said) {
			p.agreed++
		}
	}
	if p.drafts.fresh {
		p.overlap += overlap(p.targets.logits, p.drafts.logits)
		p.out.Compared++
	}
}

// agrees tells whether the drafter's choice without noise is what was said.
func (p *prober) agrees(ask *drafter.Row, said int32) bool {
	if !p.drafts.fresh {
		return ask.Proposal[0] == said
	}
	best := 0
	for i, z := range p.drafts.logits {
		if z > p.drafts.logits[best] {
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
	typical := map[asked]float64{}
	for q, took := range p.draft {
		typical[q] = bench.Quantile(took, 0.5) * scale
	}
	p.out.Draft = replay.DraftCosts{
		Steps:       map[int]time.Duration{},
		Behind:      duration(perToken(typical)),
		PromptToken: duration(bench.Quantile(p.first, 0.5) * scale),
		Observe:     duration(p.observe / float64(max(len(p.plain), 1)) * scale),
	}
	for q, s := range typical {
		if q.behind == 1 {
			p.out.Draft.Steps[q.proposed] = duration(s)
		}
	}
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// perToken is what a proposal takes more for every token that the drafter has to
// take in beyond the one that it always has.
func perToken(typical map[asked]float64) float64 {
	var slopes []float64
	for q, s := range typical {
		if q.behind == 1 {
			continue
		}
		if one, ok := typical[asked{q.proposed, 1}]; ok {
			slopes = append(slopes, (s-one)/float64(q.behind-1))
		}
	}
	return max(bench.Quantile(slopes, 0.5), 0)
}
