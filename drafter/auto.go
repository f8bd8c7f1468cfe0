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
// verified are compared with the stream as it goes on, so evidence on a drafter
// that costs nothing is free. One that costs time has an account: what its rounds
// took beyond plain decoding of the tokens they brought is paid from it, and a small
// share of the decode time is paid in. A kind without means is not asked, whatever
// is expected of it; one that is not expected to pay is tried from its means, ever
// more rarely while it fails.
//
// Deciding allocates nothing once a sequence is known, and while nothing new is
// learned of a kind that does not pay, its decision is kept.
type Auto struct {
	costs *Costs
	limit int // proposals per row
	kinds []*autoKind
	rows  map[Seq]*autoRow
	round autoRound

	slots []slot
	kept  verdict
	guard guard
}

// autoKind is what is known of a kind.
type autoKind struct {
	name     string
	copies   bool // its proposals cost nothing
	survival survival
	draft    *draftCost
	account  float64 // seconds that it may lose
	wait     int     // rounds between tries, doubling
	until    int     // rounds left until the next one
	// Of the round under way: whether rows of the kind take part, the depth of the
	// deepest proposal it was asked for and what its rows owed before.
	present bool
	deepest int
	owed    int
	planned int // depth while slots are weighed
}

// autoRow is what is known of a sequence, and its proposal of this round.
type autoRow struct {
	seq      Seq
	owing    Owing // nil: never owes
	survival survival
	kind     *autoKind // whose proposals take time
	composed bool      // other proposals come for nothing
	most     int       // tokens the kind ever proposes
	reads    bool      // the target's hidden states
	awake    int       // rounds since it rested last, up to wakeful
	begun    bool      // was asked before
	seen     int       // round it was last in

	// Of the round under way.
	asked  int  // budget given to the kind
	worked bool // the kind was at work for it
	trying bool
	owed   int
	width  int // slots chosen

	// The last proposal, as far as it has not been compared with the stream.
	source   *autoKind // who made it
	first    int       // position of its first token
	tokens   []int32
	compared int
	chances  []float32 // confidences
	match    int
	short    bool // fewer than asked for: the kind was not sure of the next
}

// autoRound is the round under way.
type autoRound struct {
	number int
	base   int // tokens that are verified whatever is proposed
	rows   []*autoRow
}

// verdict is the decision that nothing pays, and what it was made on.
type verdict struct {
	valid      bool
	rows, base int
	until      int // round
}

// slot is a candidate: position i of a row's proposal, with the chance that it
// and all before it survive.
type slot struct {
	row    int
	i      int
	chance float64
}

const (
	// What is paid into an account: as many plain rounds to start with, and a share
	// of decode time. What is won is kept up to mostSaved rounds, of which nextSaved
	// are left when a sequence begins that is alone: it loses no more than those,
	// however much was won before it.
	startSaved = 1.5
	nextSaved  = 4
	mostSaved  = 16
	paidIn     = 0.005
	// Rounds between tries, how deep one goes at most, and the chance below which a
	// slot is too rarely reached to be tried.
	firstWait    = 8
	shortestWait = 2
	longestWait  = 512
	trialWidth   = 3
	trialChance  = 0.4
	// tasteWidth is what is asked to learn what asking costs.
	tasteWidth = 2
	// confirmation is the expected gain below which a plain round is preferred to
	// drafting, and drafted the expected gain of verifying what is drafted already.
	confirmation = 0.05
	drafted      = 0.02
	// hopeless is the chance below which a slot is no candidate.
	hopeless = 0.01
	// verdictLife is how many rounds a decision is kept that nothing pays.
	verdictLife = 32
	// A row whose kind cannot be asked within restAhead rounds rests: the hidden
	// states it reads are not taken. It is asked again when it has been awake for
	// wakeful rounds, with that much of the text in sight.
	restAhead = 48
	wakeful   = 32
	// smallDebt is how many owed positions are a part of ordinary drafting.
	smallDebt = 8
)

// NewAuto makes the policy. limit caps every proposal, 1 to MaxWidth.
func NewAuto(costs *Costs, limit int) *Auto {
	return &Auto{costs: costs, limit: min(max(limit, 1), MaxWidth), rows: map[Seq]*autoRow{}}
}

func (a *Auto) String() string { return "auto" }

// row finds what is known of a sequence.
func (a *Auto) row(seq Seq) *autoRow {
	s := a.rows[seq]
	if s == nil {
		c := seq.Drafter().Contract()
		s = &autoRow{seq: seq, composed: len(c.Parts) > 0, most: c.MaxWidth, reads: len(c.Inputs.Layers) > 0, awake: wakeful}
		s.owing, _ = seq.(Owing)
		name := c.Kind
		if s.composed {
			name = c.Parts[len(c.Parts)-1]
		}
		s.kind = a.kind(name)
		s.kind.copies = c.Proposes == ByCopy && !s.composed
		a.rows[seq] = s
	}
	return s
}

func (a *Auto) kind(name string) *autoKind {
	for _, k := range a.kinds {
		if k.name == name {
			return k
		}
	}
	k := &autoKind{name: name, wait: firstWait, account: startSaved * a.costs.Verify(1), draft: a.costs.draftOf(name)}
	a.kinds = append(a.kinds, k)
	return k
}

// begin notes the rows of a round.
func (a *Auto) begin(rows []*Row) {
	a.round.number++
	a.round.base = 0
	a.round.rows = a.round.rows[:0]
	for _, k := range a.kinds {
		k.present, k.deepest, k.owed = false, 0, 0
	}
	last := a.round.rows[:cap(a.round.rows)]
	for n, r := range rows {
		var s *autoRow
		if n < len(last) && last[n] != nil && last[n].seq == r.Seq {
			s = last[n] // as in the round before
		} else {
			s = a.row(r.Seq)
			if s.seen == 0 && len(rows) == 1 {
				s.kind.account = min(s.kind.account, nextSaved*a.costs.Verify(1))
			}
		}
		if !s.kind.present {
			s.kind.present = true
			s.kind.until = max(s.kind.until-1, 0)
		}
		s.seen, s.asked, s.worked, s.trying, s.owed, s.width = a.round.number, 0, false, false, 0, 0
		a.round.rows = append(a.round.rows, s)
		a.round.base += len(r.Known)
	}
}

// Ask decides how much drafters that cost time should propose.
func (a *Auto) Ask(rows []*Row) {
	a.begin(rows)
	plain := a.costs.Verify(a.round.base)
	open := false // a row's width is to be decided
	a.guard.begin(len(rows))
	for n, r := range rows {
		s := a.round.rows[n]
		r.Budget = min(r.Budget, a.limit)
		if s.most > 0 {
			r.Budget = min(r.Budget, s.most)
		}
		r.Floor, r.Steps = 0, 0
		switch {
		case r.Budget <= 0:
		case s.kind.copies: // always asked; what it proposes is weighed
			s.asked = r.Budget
		default:
			if s.owing != nil {
				s.owed = s.owing.Owed()
			}
			if !s.kind.draft.known() && !a.guard.holds() {
				s.width = min(r.Budget, tasteWidth) // a first taste of what asking costs
			} else {
				open = true
			}
		}
	}
	rate := 0.0
	if open && !a.guard.holds() && !a.stands(rows) {
		rate = a.divide(rows)
	}
	for n, r := range rows {
		if s := a.round.rows[n]; r.Budget > 0 && s.asked == 0 {
			a.give(r, s, plain, rate)
		}
	}
}

// stands tells whether the decision that nothing pays still holds.
func (a *Auto) stands(rows []*Row) bool {
	return a.kept.valid && a.kept.rows == len(rows) && a.kept.base == a.round.base && a.round.number < a.kept.until
}

// divide decides the widths of open rows, and returns the rate expected.
func (a *Auto) divide(rows []*Row) float64 {
	a.slots = a.slots[:0]
	for n, r := range rows {
		s := a.round.rows[n]
		if r.Budget <= 0 || s.asked > 0 || s.width > 0 || !a.solvent(s) {
			continue
		}
		chance := 1.0
		for i := range r.Budget {
			chance *= s.kind.survival.expect(i, &s.survival)
			if chance < hopeless {
				break
			}
			a.slots = append(a.slots, slot{n, i, chance})
		}
	}
	chosen, rate := a.best(len(rows), true)
	for _, s := range a.slots[:chosen] {
		r := a.round.rows[s.row]
		r.width = max(r.width, s.i+1)
	}
	a.kept = verdict{chosen == 0, len(rows), a.round.base, a.round.number + verdictLife}
	return rate
}

// give lets a row ask for the width chosen, or tries its kind.
func (a *Auto) give(r *Row, s *autoRow, plain, rate float64) {
	k := s.kind
	r.Rest = s.width == 0 && s.reads && a.rests(k, plain)
	switch {
	case s.awake < wakeful:
		s.width = 0
	case s.width > 0 && rate > 0 && k.draft.known():
		// A slot that survives more rarely than this costs more than it brings.
		step := max(k.draft.at(2)-k.draft.at(1), 0)
		r.Floor = float32(clamp(0.7*rate*(a.costs.Verify(a.round.base+1)-plain+step), 0, 0.5))
	case s.width == 0 && k.until == 0:
		if w := s.trial(r.Budget); k.account >= k.draft.at(float64(w))+k.draft.debt(s.owed) {
			s.width, s.trying = w, true
			k.until = k.wait
		}
	}
	if s.awake = min(s.awake+1, wakeful); r.Rest {
		s.awake = 0
	}
	s.asked = s.width
	if s.asked > 0 {
		k.owed += s.owed
	}
	switch {
	case !s.composed:
		if r.Budget = s.asked; s.asked == 0 {
			r.Decline = Unprofitable
		}
	case s.asked == 0:
		r.Steps = -1 // copies stay free
	default:
		r.Steps = s.asked
	}
}

// solvent tells whether a kind may be asked for a row where it is expected to pay.
func (a *Auto) solvent(s *autoRow) bool {
	debt := 0.0
	if s.owed > smallDebt {
		debt = s.kind.draft.debt(s.owed)
	}
	return s.kind.account > debt
}

// rests tells whether a kind that is not expected to pay will not be tried for
// long: it has just failed, or its means do not suffice.
func (a *Auto) rests(k *autoKind, plain float64) bool {
	lack := k.draft.at(1) + k.draft.debt(wakeful) - k.account
	return k.draft.known() && (k.until > restAhead || a.guard.pause > restAhead || lack > restAhead*paidIn*plain)
}

// trial is the width that a kind is tried with which is not expected to pay: the
// first slot, and those behind it that are likely to be reached.
func (s *autoRow) trial(budget int) int {
	w, chance := 1, s.kind.survival.expect(0, &s.survival)
	for ; w < min(trialWidth, budget); w++ {
		if chance *= s.kind.survival.expect(w, &s.survival); chance < trialChance {
			break
		}
	}
	return w
}

// best finds how many of the candidates, likeliest first, make the most tokens
// per second, with the time of drafting to their depths or without.
func (a *Auto) best(rows int, drafting bool) (chosen int, rate float64) {
	if rows > 1 { // the slots of one row are in order
		slices.SortFunc(a.slots, func(x, y slot) int {
			if c := cmp.Compare(y.chance, x.chance); c != 0 {
				return c
			}
			if c := cmp.Compare(x.row, y.row); c != 0 {
				return c
			}
			return cmp.Compare(x.i, y.i)
		})
	}
	base := max(a.round.base, rows, 1)
	tokens := float64(rows)
	plain := tokens / a.costs.Verify(base)
	rate = plain
	enough := plain * (1 + drafted)
	if drafting {
		enough = plain * (1 + confirmation)
	}
	draft := 0.0 // kinds draft one after the other, the rows of a kind together
	for _, k := range a.kinds {
		k.planned = 0
	}
	for n, s := range a.slots {
		tokens += s.chance
		if k := a.round.rows[s.row].kind; drafting && s.i+1 > k.planned {
			if k.planned > 0 {
				draft -= k.draft.at(float64(k.planned))
			}
			k.planned = s.i + 1
			draft += k.draft.at(float64(k.planned))
		}
		if r := tokens / (a.costs.Verify(base+n+1) + draft); r > rate && r > enough {
			chosen, rate = n+1, r
		}
	}
	return chosen, rate
}

// Table is the cost table as measured so far, for reports: expected seconds of a
// forward by number of tokens.
func (c *Costs) Table() map[int]time.Duration {
	out := map[int]time.Duration{}
	for _, n := range c.tokens {
		out[n] = time.Duration(c.Verify(n) * float64(time.Second))
	}
	return out
}

var _ Width = (*Auto)(nil)
