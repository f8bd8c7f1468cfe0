package bench

import (
	"slices"
	"time"

	"surmise/drafter"
)

// Counts are what speculation did, as stored: the counts of a drafter.Tally
// without trailing zeros, and times in seconds.
type Counts struct {
	// Rounds counts rounds that drew tokens, Drafts those that had a proposal.
	Rounds   int64 `json:"rounds"`
	Drafts   int64 `json:"drafts"`
	Proposed int64 `json:"draft_tokens"`
	Accepted int64 `json:"accepted_tokens"`
	// PerPosition[i] counts rounds in which at least i+1 tokens were accepted;
	// Tried[i] those that proposed more than i and accepted the first i.
	PerPosition []int64 `json:"accepted_tokens_per_pos"`
	Tried       []int64 `json:"tried_per_pos"`
	// Widths[k] counts rounds that proposed k tokens.
	Widths []int64 `json:"widths"`

	DraftSeconds  float64 `json:"draft_s"`
	VerifySeconds float64 `json:"verify_s"`
	SampleSeconds float64 `json:"sample_s"`
}

// CountsOf stores a tally.
func CountsOf(t *drafter.Tally) Counts {
	return Counts{
		Rounds: t.Rounds, Drafts: t.Drafts, Proposed: t.Proposed, Accepted: t.Accepted,
		PerPosition: trimmed(t.PerPosition[:]), Tried: trimmed(t.Tried[:]), Widths: trimmed(t.Widths[:]),
		DraftSeconds: t.Draft.Seconds(), VerifySeconds: t.Verify.Seconds(), SampleSeconds: t.Sample.Seconds(),
	}
}

// trimmed copies counts without the zeros at their end.
func trimmed(v []int64) []int64 {
	n := len(v)
	for n > 0 && v[n-1] == 0 {
		n--
	}
	return slices.Clone(v[:n])
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	c.Rounds += o.Rounds
	c.Drafts += o.Drafts
	c.Proposed += o.Proposed
	c.Accepted += o.Accepted
	c.PerPosition = added(c.PerPosition, o.PerPosition)
	c.Tried = added(c.Tried, o.Tried)
	c.Widths = added(c.Widths, o.Widths)
	c.DraftSeconds += o.DraftSeconds
	c.VerifySeconds += o.VerifySeconds
	c.SampleSeconds += o.SampleSeconds
}

func added(a, b []int64) []int64 {
	a = slices.Clone(a)
	for len(a) < len(b) {
		a = append(a, 0)
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// SameCounts tells whether two counts agree but for times.
func (c Counts) SameCounts(o Counts) bool {
	return c.Rounds == o.Rounds && c.Drafts == o.Drafts && c.Proposed == o.Proposed && c.Accepted == o.Accepted &&
		slices.Equal(c.PerPosition, o.PerPosition) && slices.Equal(c.Tried, o.Tried) && slices.Equal(c.Widths, o.Widths)
}

// AcceptanceRate is accepted / proposed, 0 when nothing was proposed.
func (c Counts) AcceptanceRate() float64 { return ratio(c.Accepted, c.Proposed) }

// MeanAcceptanceLength is 1 + accepted / drafts, the bonus token included; 0
// without a draft.
func (c Counts) MeanAcceptanceLength() float64 {
	if c.Drafts == 0 {
		return 0
	}
	return 1 + ratio(c.Accepted, c.Drafts)
}

// Unconditional is by position the share of drafts in which that many tokens
// were accepted: per_pos / drafts.
func (c Counts) Unconditional() []float64 {
	out := make([]float64, len(c.Tried))
	for i := range out {
		out[i] = ratio(at(c.PerPosition, i), c.Drafts)
	}
	return out
}

// Conditional is by position the share of tokens accepted of those that were
// proposed there behind accepted ones: per_pos / tried.
func (c Counts) Conditional() []float64 {
	out := make([]float64, len(c.Tried))
	for i := range out {
		out[i] = ratio(at(c.PerPosition, i), c.Tried[i])
	}
	return out
}

// Histogram is by number of accepted tokens the number of drafts.
func (c Counts) Histogram() []int64 {
	if c.Drafts == 0 {
		return nil
	}
	out := []int64{c.Drafts - at(c.PerPosition, 0)}
	for i := range c.PerPosition {
		out = append(out, c.PerPosition[i]-at(c.PerPosition, i+1))
	}
	return out
}

func at(v []int64, i int) int64 {
	if i < len(v) {
		return v[i]
	}
	return 0
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// seconds is a time as stored.
func seconds(d time.Duration) float64 { return d.Seconds() }
