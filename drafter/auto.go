package drafter

import (
	"cmp"
	"slices"
	"time"
)

// Auto is the policy "auto": it gives proposal slots, one after the other, to the
// row where the chance that the slot survives is greatest, as long as the
// expected number of tokens per second of the whole batch rises:
//
//	(Σ rows 1 + Σ slots Π chances) / (time to draft + time to verify)
//
// Chances and times are learned while decoding. Proposals that were made but not
// verified are compared with the stream afterwards, so evidence on a drafter that
// costs nothing is free; one that costs time is tried from a budget of 1 % of the
// decode time, ever more rarely while it fails.
type Auto struct {
	costs *Costs
	limit int // proposals per row
	kinds map[string]*autoKind
	rows  map[Seq]*autoRow
	slots []slot
	round autoRound
}

// autoKind is what is known of a kind.
type autoKind struct {
	survival survival
	credit   float64 // seconds that may be spent on trying
	wait     int     // rounds between tries, doubling
	until    int     // rounds left until the next one
}

// autoRow is what is known of a sequence, and its proposal of this round.
type autoRow struct {
	survival survival
	kind     *autoKind // whose proposals take time
	name     string
	composed bool      // other proposals come for nothing
	source   *autoKind // who made the proposal
	first    int       // position of the proposal's first token
	tokens   []int32
	chances  []float32 // confidences
	match    int
	asked    int // budget given
	trying   bool
	seen     int // round it was last in
}

// autoRound is the round under way.
type autoRound struct {
	number int
	base   int // tokens that are verified whatever is proposed
}

// slot is a candidate: position i of a row's proposal, with the chance that it
// and all before it survive.
type slot struct {
	row    int
	i      int
	chance float64
}

// The budget for trying: a share of decode time, and a start-up allowance of as
// many plain rounds.
const (
	trialShare   = 0.01
	trialStart   = 2
	firstWait    = 8
	longestWait  = 512
	trialWidth   = 3
	confirmation = 0.02 // expected gain below which a plain round is preferred
)

// NewAuto makes the policy. limit caps every proposal, 1 to MaxWidth.
func NewAuto(costs *Costs, limit int) *Auto {
	return &Auto{costs: costs, limit: min(max(limit, 1), MaxWidth), kinds: map[string]*autoKind{}, rows: map[Seq]*autoRow{}}
}

func (a *Auto) String() string { return "auto" }

// row finds what is known of a row's sequence.
func (a *Auto) row(r *Row) *autoRow {
	s := a.rows[r.Seq]
	if s == nil {
		c := r.Seq.Drafter().Contract()
		s = &autoRow{name: c.Kind, composed: len(c.Parts) > 0}
		if s.composed {
			s.name = c.Parts[len(c.Parts)-1]
		}
		s.kind = a.kind(s.name)
		a.rows[r.Seq] = s
	}
	s.seen = a.round.number
	return s
}

func (a *Auto) kind(name string) *autoKind {
	k := a.kinds[name]
	if k == nil {
		k = &autoKind{wait: firstWait, credit: trialStart * a.costs.Verify(1)}
		a.kinds[name] = k
	}
	return k
}

// free tells that drafting with a kind costs next to nothing, so that it is
// always asked and only what it proposes is weighed.
func (a *Auto) free(name string, base int) bool {
	d, known := a.costs.Draft(name, 4)
	return known && d < 0.005*a.costs.Verify(base)
}

// Ask decides how much drafters that cost time should propose.
func (a *Auto) Ask(rows []*Row) {
	a.round.number++
	a.round.base = 0
	for _, r := range rows {
		a.round.base += len(r.Known)
	}
	base := max(a.round.base, 1)
	a.slots = a.slots[:0]
	for n, r := range rows {
		s := a.row(r)
		r.Budget = min(r.Budget, a.limit)
		r.Floor, r.Steps, s.asked, s.trying = 0, 0, 0, false
		if _, known := a.costs.Draft(s.name, 1); !known {
			// A first taste of what asking costs.
			s.asked = min(r.Budget, 2)
			s.kind.credit -= a.costs.Verify(base+s.asked) - a.costs.Verify(base)
			s.allow(r, s.asked)
			continue
		}
		if a.free(s.name, base) {
			s.asked = r.Budget
			continue
		}
		chance := 1.0
		for i := range r.Budget {
			chance *= s.kind.survival.expect(i, &s.survival)
			if chance < 0.01 {
				break
			}
			a.slots = append(a.slots, slot{n, i, chance})
		}
	}
	if len(a.slots) == 0 {
		return
	}
	chosen, rate := a.best(len(rows), 0, func(depth []int) float64 { return a.draftCost(rows, depth) })
	depth := make([]int, len(rows))
	for _, s := range a.slots[:chosen] {
		depth[s.row] = max(depth[s.row], s.i+1)
	}
	for n, r := range rows {
		s := a.rows[r.Seq]
		if s.asked > 0 {
			continue
		}
		width := depth[n]
		if width == 0 && a.try(s, base, r.Budget) {
			width = min(trialWidth, r.Budget)
			s.trying = true
		}
		s.asked = min(r.Budget, width)
		s.allow(r, s.asked)
		if width > 0 && !s.trying {
			one, _ := a.costs.Draft(s.name, 1)
			two, _ := a.costs.Draft(s.name, 2)
			// A slot that survives more rarely than this costs more than it brings.
			r.Floor = float32(clamp(0.7*rate*(a.costs.Verify(base+1)-a.costs.Verify(base)+max(two-one, 0)), 0, 0.5))
		}
	}
}

// allow caps what takes time to draft; copies of a composed kind stay free.
func (s *autoRow) allow(r *Row, width int) {
	switch {
	case !s.composed:
		if width == 0 && r.Budget > 0 {
			r.Decline = Unprofitable
		}
		r.Budget = width
	case width == 0:
		r.Steps = -1
	default:
		r.Steps = width
	}
}

// draftCost is the time of drafting rows to these depths: kinds draft one after
// the other, the rows of a kind together.
func (a *Auto) draftCost(rows []*Row, depth []int) float64 {
	deepest := map[string]int{}
	for n, r := range rows {
		if depth[n] > 0 {
			name := a.rows[r.Seq].name
			deepest[name] = max(deepest[name], depth[n])
		}
	}
	sum := 0.0
	for name, d := range deepest {
		c, _ := a.costs.Draft(name, d)
		sum += c
	}
	return sum
}

// best sorts the candidates and finds how many of them make the most tokens per
// second. sunk is time already spent; draft is what drafting to given depths takes.
func (a *Auto) best(rows int, sunk float64, draft func(depth []int) float64) (chosen int, rate float64) {
	slices.SortFunc(a.slots, func(x, y slot) int {
		if c := cmp.Compare(y.chance, x.chance); c != 0 {
			return c
		}
		if c := cmp.Compare(x.row, y.row); c != 0 {
			return c
		}
		return cmp.Compare(x.i, y.i)
	})
	base := max(a.round.base, rows, 1)
	tokens := float64(rows)
	rate = tokens / (sunk + a.costs.Verify(base))
	plain := rate
	depth := make([]int, rows)
	for n, s := range a.slots {
		tokens += s.chance
		depth[s.row] = max(depth[s.row], s.i+1)
		t := sunk + a.costs.Verify(base+n+1)
		if draft != nil {
			t += draft(depth)
		}
		if r := tokens / t; r > rate && r > plain*(1+confirmation) {
			chosen, rate = n+1, r
		}
	}
	return chosen, rate
}

// try tells whether a kind that is not expected to pay is given a chance.
func (a *Auto) try(s *autoRow, base, budget int) bool {
	if budget < 1 {
		return false
	}
	k := s.kind
	if k.until > 0 {
		k.until--
		return false
	}
	d, _ := a.costs.Draft(s.name, min(trialWidth, budget))
	price := d + a.costs.Verify(base+trialWidth) - a.costs.Verify(base)
	if k.credit < price {
		return false
	}
	k.until = k.wait
	return true
}

// Trim cuts proposals down to what is worth verifying.
func (a *Auto) Trim(rows []*Row) {
	a.slots = a.slots[:0]
	for n, r := range rows {
		s := a.row(r)
		s.first = r.Position + len(r.Known)
		s.tokens = append(s.tokens[:0], r.Proposal...)
		s.chances = append(s.chances[:0], r.Confidence...)
		s.match, s.source = r.Match, s.kind
		if r.Source != "" && r.Source != s.name {
			s.source = a.kind(r.Source)
		}
		chance := 1.0
		for i := range r.Proposal {
			chance *= s.chance(i)
			if s.trying {
				chance = 1 // what is paid for is looked at
			}
			if chance < 0.01 {
				break
			}
			a.slots = append(a.slots, slot{n, i, chance})
		}
	}
	chosen, _ := a.best(len(rows), 0, nil)
	keep := make([]int, len(rows))
	for _, s := range a.slots[:chosen] {
		keep[s.row] = max(keep[s.row], s.i+1)
	}
	for n, r := range rows {
		if len(r.Proposal) <= keep[n] {
			continue
		}
		r.Proposal = r.Proposal[:keep[n]]
		if len(r.Confidence) > keep[n] {
			r.Confidence = r.Confidence[:keep[n]]
		}
		if keep[n] == 0 {
			r.Decline = Unprofitable
		}
	}
}

// chance is that of token i of the row's proposal.
func (s *autoRow) chance(i int) float64 {
	all := s.source.survival.of(i, s.confidence(i), s.match)
	own := &s.survival.sure[confidenceBin(s.confidence(i), s.match)][positionBin(i)]
	return own.mean(all, 2*priorWeight)
}

func (s *autoRow) confidence(i int) float32 {
	if i < len(s.chances) {
		return s.chances[i]
	}
	return 0.5
}

// Learn compares every proposal, verified or not, with what the target said, and
// takes the times.
func (a *Auto) Learn(outcomes []*Outcome, cost Cost) {
	if cost.Tokens > 0 && a.round.base >= cost.Rows {
		a.costs.LearnVerify(cost.Tokens, cost.Verify)
	}
	deepest := map[string]int{}
	plain := a.costs.Verify(max(a.round.base, 1))
	for _, o := range outcomes {
		s := a.rows[o.Seq]
		if s == nil || s.seen != a.round.number {
			continue
		}
		if s.asked > 0 && (s.source == s.kind || !s.composed) {
			deepest[s.name] = max(deepest[s.name], len(s.tokens), 1)
		} else {
			deepest[s.name] = max(deepest[s.name], 0)
		}
		yes := a.compare(s, o)
		if s.trying {
			// What the try really took is paid, not what it was expected to take.
			s.kind.credit -= (cost.Verify + cost.Draft).Seconds() - plain
			if yes > 0 {
				s.kind.wait = firstWait
			} else {
				s.kind.wait = min(2*s.kind.wait, longestWait)
			}
			s.kind.until = s.kind.wait
		}
		if o.Ended {
			delete(a.rows, o.Seq)
		}
	}
	a.spend(deepest, cost)
	a.forget()
}

// spend books drafting time, when one kind alone was at work, and fills the
// budgets for trying.
func (a *Auto) spend(deepest map[string]int, cost Cost) {
	for name, depth := range deepest {
		if len(deepest) == 1 && depth > 0 {
			if _, known := a.costs.Draft(name, 1); !known {
				a.kinds[name].credit -= cost.Draft.Seconds()
			}
			a.costs.LearnDraft(name, depth, cost.Draft)
		}
		a.kinds[name].credit = min(a.kinds[name].credit+trialShare*(cost.Verify+cost.Sample+cost.Draft).Seconds(),
			8*trialStart*a.costs.Verify(1))
	}
}

// compare counts how the row's proposal fared and returns how many of its tokens
// the target said.
func (a *Auto) compare(s *autoRow, o *Outcome) int {
	yes := 0
	for i, t := range s.tokens {
		said := o.Pending
		if at := s.first + i - o.Position; at < len(o.Committed) {
			said = o.Committed[at]
		} else if at > len(o.Committed) || o.Pending < 0 {
			break
		}
		s.source.survival.learn(i, s.confidence(i), s.match, said == t)
		s.survival.learn(i, s.confidence(i), s.match, said == t)
		if said != t {
			break
		}
		yes++
	}
	s.tokens = s.tokens[:0]
	return yes
}

// forget drops rows that were in no round for long.
func (a *Auto) forget() {
	if a.round.number%256 != 0 {
		return
	}
	for seq, s := range a.rows {
		if a.round.number-s.seen > 256 {
			delete(a.rows, seq)
		}
	}
}

var _ Width = (*Auto)(nil)

// Table is the cost table as measured so far, for reports: expected seconds of a
// forward by number of tokens.
func (c *Costs) Table() map[int]time.Duration {
	out := map[int]time.Duration{}
	for _, n := range c.tokens {
		out[n] = time.Duration(c.Verify(n) * float64(time.Second))
	}
	return out
}
