package drafter

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// Tally counts what speculation did, for a request or for a process. A round
// without a proposal is not a draft.
type Tally struct {
	// Rounds counts rounds that drew tokens, with or without a proposal.
	Rounds int64
	// Drafts counts rounds that had a proposal, Proposed the tokens proposed
	// in them and Accepted those that equalled the target's.
	Drafts, Proposed, Accepted int64
	// PerPosition[i] counts rounds in which at least i+1 tokens were accepted.
	PerPosition [MaxWidth]int64
	// Tried[i] counts rounds that proposed more than i tokens and in which the
	// first i were accepted: PerPosition[i] / Tried[i] is the conditional rate.
	Tried [MaxWidth]int64
	// Widths[k] counts rounds that proposed k tokens, 0 included.
	Widths [MaxWidth + 1]int64
	// Draft, Verify and Sample are the times spent.
	Draft, Verify, Sample time.Duration
}

// Round counts one round of a row: accepted of proposed tokens.
func (t *Tally) Round(proposed, accepted int) {
	t.Rounds++
	t.Widths[proposed]++
	if proposed == 0 {
		return
	}
	t.Drafts++
	t.Proposed += int64(proposed)
	t.Accepted += int64(accepted)
	for i := range accepted {
		t.PerPosition[i]++
	}
	for i := range min(accepted+1, proposed) {
		t.Tried[i]++
	}
}

// Add adds another tally.
func (t *Tally) Add(o *Tally) {
	t.Rounds += o.Rounds
	t.Drafts += o.Drafts
	t.Proposed += o.Proposed
	t.Accepted += o.Accepted
	for i, n := range o.PerPosition {
		t.PerPosition[i] += n
	}
	for i, n := range o.Tried {
		t.Tried[i] += n
	}
	for i, n := range o.Widths {
		t.Widths[i] += n
	}
	t.Draft += o.Draft
	t.Verify += o.Verify
	t.Sample += o.Sample
}

// AcceptanceRate is accepted / proposed, 0 when nothing was proposed.
func (t *Tally) AcceptanceRate() float64 {
	if t.Proposed == 0 {
		return 0
	}
	return float64(t.Accepted) / float64(t.Proposed)
}

// MeanAcceptanceLength is 1 + accepted / drafts: the tokens a drafted round
// emits on average, the bonus token included. It is 0 without a draft.
func (t *Tally) MeanAcceptanceLength() float64 {
	if t.Drafts == 0 {
		return 0
	}
	return 1 + float64(t.Accepted)/float64(t.Drafts)
}

// Counters are a process's tallies and declines by drafter kind. They are safe
// for concurrent use.
type Counters struct {
	mu       sync.Mutex
	kinds    []string
	tallies  map[string]*Tally
	declines map[string]map[Reason]int64
}

// NewCounters has every series of the given kinds at zero from the start.
func NewCounters(contracts ...Contract) *Counters {
	c := &Counters{tallies: map[string]*Tally{}, declines: map[string]map[Reason]int64{}}
	for _, k := range contracts {
		c.kind(k.Kind)
		for _, r := range k.Engagement {
			c.declines[k.Kind][Reason(r.Name)] = 0
		}
	}
	return c
}

// kind returns the tally of a kind; c.mu is held or c is not shared yet.
func (c *Counters) kind(name string) *Tally {
	t := c.tallies[name]
	if t == nil {
		t = new(Tally)
		c.tallies[name] = t
		c.declines[name] = map[Reason]int64{}
		c.kinds = append(c.kinds, name)
		slices.Sort(c.kinds)
	}
	return t
}

// Round counts one round of a row.
func (c *Counters) Round(kind string, proposed, accepted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).Round(proposed, accepted)
}

// Spend adds the times of a round.
func (c *Counters) Spend(kind string, cost Cost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.kind(kind)
	t.Draft += cost.Draft
	t.Verify += cost.Verify
	t.Sample += cost.Sample
}

// Decline counts a row that made no proposal.
func (c *Counters) Decline(kind string, why Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind)
	c.declines[kind][why]++
}

// Tally is a copy of a kind's tally.
func (c *Counters) Tally(kind string) Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tallies[kind]; t != nil {
		return *t
	}
	return Tally{}
}

// Declines is a copy of a kind's declines by reason.
func (c *Counters) Declines(kind string) map[Reason]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[Reason]int64{}
	for r, n := range c.declines[kind] {
		out[r] = n
	}
	return out
}

// Sample is one value of a series of metrics.
type Sample struct {
	Name   string
	Labels []Label
	Value  float64
}

// Label is a dimension of a series.
type Label struct{ Name, Value string }

// Names of the series. The vllm names are those existing dashboards read.
const (
	MetricDrafts         = "vllm:spec_decode_num_drafts_total"
	MetricDraftTokens    = "vllm:spec_decode_num_draft_tokens_total"
	MetricAccepted       = "vllm:spec_decode_num_accepted_tokens_total"
	MetricAcceptedPerPos = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
	MetricDeclines       = "surmise_draft_declines_total"
	MetricDraftSeconds   = "surmise_draft_seconds_total"
	MetricVerifySeconds  = "surmise_verify_seconds_total"
	MetricSampleSeconds  = "surmise_sample_seconds_total"
	MetricWidths         = "surmise_draft_width_rounds_total"
)

// Samples lists every series of every kind, in a fixed order.
func (c *Counters) Samples() []Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Sample
	for _, kind := range c.kinds {
		t := c.tallies[kind]
		add := func(name string, v float64, labels ...Label) {
			out = append(out, Sample{name, append([]Label{{"kind", kind}}, labels...), v})
		}
		add(MetricDrafts, float64(t.Drafts))
		add(MetricDraftTokens, float64(t.Proposed))
		add(MetricAccepted, float64(t.Accepted))
		for i, n := range t.PerPosition {
			add(MetricAcceptedPerPos, float64(n), Label{"position", strconv.Itoa(i)})
		}
		reasons := make([]Reason, 0, len(c.declines[kind]))
		for r := range c.declines[kind] {
			reasons = append(reasons, r)
		}
		slices.Sort(reasons)
		for _, r := range reasons {
			add(MetricDeclines, float64(c.declines[kind][r]), Label{"reason", string(r)})
		}
		add(MetricDraftSeconds, t.Draft.Seconds())
		add(MetricVerifySeconds, t.Verify.Seconds())
		add(MetricSampleSeconds, t.Sample.Seconds())
		for k, n := range t.Widths {
			add(MetricWidths, float64(n), Label{"width", strconv.Itoa(k)})
		}
	}
	return out
}
