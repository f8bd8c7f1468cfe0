package drafter

import (
	"maps"
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
	mu    sync.Mutex
	kinds map[string]*kindCount
	order []string
}

// kindCount counts one kind: in all, and by who proposed.
type kindCount struct {
	all      Tally
	sources  []sourceCount // the kind itself, or the parts of a composed one
	declines map[Reason]int64
}

type sourceCount struct {
	name string
	Tally
}

// NewCounters has every series of the given kinds at zero from the start.
func NewCounters(contracts ...Contract) *Counters {
	c := &Counters{kinds: map[string]*kindCount{}}
	for _, k := range contracts {
		n := c.kind(k.Kind)
		for _, part := range k.Parts {
			n.source(part)
		}
		if len(k.Parts) == 0 {
			n.source(k.Kind)
		}
		for _, r := range k.Engagement {
			n.declines[Reason(r.Name)] = 0
		}
	}
	return c
}

// kind finds or makes a kind's counts; c.mu is held or c is not shared yet.
func (c *Counters) kind(name string) *kindCount {
	n := c.kinds[name]
	if n == nil {
		n = &kindCount{declines: map[Reason]int64{}}
		c.kinds[name] = n
		c.order = append(c.order, name)
		slices.Sort(c.order)
	}
	return n
}

func (n *kindCount) source(name string) *Tally {
	for i := range n.sources {
		if n.sources[i].name == name {
			return &n.sources[i].Tally
		}
	}
	n.sources = append(n.sources, sourceCount{name: name})
	return &n.sources[len(n.sources)-1].Tally
}

// Settle counts a round of a row with its times. source is who made its proposal:
// the kind itself, or the part of a composed kind. A round without a proposal is
// counted for the kind alone, with the reason; why is empty for a round that was
// asked for none.
func (c *Counters) Settle(kind, source string, proposed, accepted int, cost Cost, why Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.kind(kind)
	n.all.Round(proposed, accepted)
	n.all.Draft += cost.Draft
	n.all.Verify += cost.Verify
	n.all.Sample += cost.Sample
	switch {
	case proposed > 0:
		n.source(source).Round(proposed, accepted)
	case why != "":
		n.declines[why]++
	}
}

// Decline counts a row that made no proposal.
func (c *Counters) Decline(kind string, why Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).declines[why]++
}

// Tally is a copy of a kind's tally.
func (c *Counters) Tally(kind string) Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.kinds[kind]; n != nil {
		return n.all
	}
	return Tally{}
}

// SourceTally is a copy of the tally of a kind's rounds in which source proposed.
func (c *Counters) SourceTally(kind, source string) Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.kinds[kind]; n != nil {
		for i := range n.sources {
			if n.sources[i].name == source {
				return n.sources[i].Tally
			}
		}
	}
	return Tally{}
}

// Declines is a copy of a kind's declines by reason.
func (c *Counters) Declines(kind string) map[Reason]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[Reason]int64{}
	if n := c.kinds[kind]; n != nil {
		maps.Copy(out, n.declines)
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

// Samples lists every series of every kind, in a fixed order. What is counted by
// drafts has the labels kind and source: the parts of a composed kind are told
// apart by source, and sums over either label count every draft once. The rest
// has the label kind.
func (c *Counters) Samples() []Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Sample
	for _, kind := range c.order {
		n := c.kinds[kind]
		add := func(name string, v float64, labels ...Label) {
			out = append(out, Sample{name, append([]Label{{"kind", kind}}, labels...), v})
		}
		for i := range n.sources {
			t, source := &n.sources[i].Tally, Label{"source", n.sources[i].name}
			add(MetricDrafts, float64(t.Drafts), source)
			add(MetricDraftTokens, float64(t.Proposed), source)
			add(MetricAccepted, float64(t.Accepted), source)
			for i, count := range t.PerPosition {
				add(MetricAcceptedPerPos, float64(count), source, Label{"position", strconv.Itoa(i)})
			}
		}
		for _, r := range slices.Sorted(maps.Keys(n.declines)) {
			add(MetricDeclines, float64(n.declines[r]), Label{"reason", string(r)})
		}
		add(MetricDraftSeconds, n.all.Draft.Seconds())
		add(MetricVerifySeconds, n.all.Verify.Seconds())
		add(MetricSampleSeconds, n.all.Sample.Seconds())
		for k, count := range n.all.Widths {
			add(MetricWidths, float64(count), Label{"width", strconv.Itoa(k)})
		}
	}
	return out
}
