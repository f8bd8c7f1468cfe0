package replay

import (
	"slices"
	"time"

	"surmise/drafter"
)

// DraftCosts are measured times of drafting.
type DraftCosts struct {
	// Steps is the time of proposing by number of tokens proposed.
	Steps map[int]time.Duration
	// PromptToken is what a sequence's first proposal takes more for every token
	// before it: a draft model reads the prompt then.
	PromptToken time.Duration
	// Behind is what a proposal takes more for every token beyond one that came
	// since the proposal before it.
	Behind time.Duration
	// Observe is what the drafter does in every round when it is told of the
	// outcome.
	Observe time.Duration
}

// at is linear between and beyond the measured numbers of tokens.
func (d *DraftCosts) at(tokens int) time.Duration {
	var have []int
	for n := range d.Steps {
		have = append(have, n)
	}
	slices.Sort(have)
	switch len(have) {
	case 0:
		return 0
	case 1:
		return d.Steps[have[0]]
	}
	i := 1
	for i < len(have)-1 && have[i] < tokens {
		i++
	}
	a, b := have[i-1], have[i]
	slope := float64(d.Steps[b]-d.Steps[a]) / float64(b-a)
	return max(d.Steps[a]+time.Duration(slope*float64(tokens-a)), 0)
}

// paced is a width policy that lets the time of drafting pass on a clock.
type paced struct {
	drafter.Width
	costs  *DraftCosts
	watch  *clock
	copies bool // declining is as quick as the drafter is
	seen   drafter.Seq
	at     int // position of its proposal before
}

func newPaced(w drafter.Width, c *DraftCosts, watch *clock, d drafter.Drafter) *paced {
	return &paced{Width: w, costs: c, watch: watch, copies: d.Contract().Proposes == drafter.ByCopy}
}

// Trim is called when the drafter has proposed.
func (p *paced) Trim(rows []*drafter.Row) {
	for _, r := range rows {
		p.watch.pass(p.costs.Observe)
		if r.Budget <= 0 {
			continue
		}
		n := len(r.Proposal)
		switch {
		case p.copies:
			if n > 0 {
				p.watch.pass(p.costs.at(n))
			}
			continue
		case r.Steps < 0 || r.Match > 0 && r.Source != "":
			continue // a copy of a composed kind
		}
		if r.Seq != p.seen {
			p.seen = r.Seq
			p.watch.pass(time.Duration(r.Position) * p.costs.PromptToken)
		} else {
			p.watch.pass(time.Duration(r.Position-p.at-1) * p.costs.Behind)
		}
		p.at = r.Position
		p.watch.pass(p.costs.at(max(n, 1)))
	}
	p.Width.Trim(rows)
}
