package drafter

import (
	"context"
	"fmt"
)

// Propose asks the drafters of rows for proposals, one call for each drafter.
// Rows without budget are declined without a call, for the reason a width
// policy has left in Decline, else because there is nothing left to propose. A drafter that fails, or
// breaks the rule that a proposal never exceeds its budget, leaves its error in
// Err of its rows and no proposal there; other rows are not touched. Every row
// must have a Seq.
func Propose(ctx context.Context, rows []*Row) {
	for _, r := range rows {
		why := r.Decline
		r.Reset()
		r.Budget = min(r.Budget, MaxWidth)
		if r.Budget <= 0 {
			if r.Decline = why; why == "" {
				r.Decline = NothingLeft
			}
		}
	}
	each(rows, func(r *Row) Drafter {
		if r.Budget <= 0 {
			return nil
		}
		return r.Seq.Drafter()
	}, func(d Drafter, group []*Row) {
		err := d.Propose(ctx, group)
		for _, r := range group {
			if r.Err == nil {
				r.Err = err
			}
			if r.Err == nil && len(r.Proposal) > r.Budget {
				r.Err = fmt.Errorf("drafter %s proposed %d tokens to a budget of %d", d.Contract().Kind, len(r.Proposal), r.Budget)
			}
			if r.Err != nil {
				r.Proposal, r.Confidence, r.Decline = r.Proposal[:0], r.Confidence[:0], Failed
			}
		}
	})
}

// Observe tells the drafters of outcomes what a round did, one call for each
// drafter. A drafter that fails, or whose position differs from the target's
// afterwards, leaves its error in Err of its outcomes.
func Observe(outcomes []*Outcome) {
	each(outcomes, func(o *Outcome) Drafter { return o.Seq.Drafter() }, func(d Drafter, group []*Outcome) {
		err := d.Observe(group)
		for _, o := range group {
			if o.Err == nil {
				o.Err = err
			}
			if got := o.Seq.Position(); o.Err == nil && got != o.After() {
				o.Err = fmt.Errorf("drafter %s is at position %d after a round, the target at %d", d.Contract().Kind, got, o.After())
			}
		}
	})
}

// each calls f once for every drafter among items with its items in order. The
// usual case, one drafter for all, allocates nothing.
func each[T any](items []T, of func(T) Drafter, f func(Drafter, []T)) {
	var done []Drafter
	for i, first := range items {
		d := of(first)
		if d == nil || contains(done, d) {
			continue
		}
		j := i
		for j < len(items) && of(items[j]) == d {
			j++
		}
		group := items[i:j:j]
		for _, x := range items[j:] {
			if of(x) == d {
				group = append(group, x)
			}
		}
		f(d, group)
		if j == len(items) {
			return
		}
		done = append(done, d)
	}
}

func contains(ds []Drafter, d Drafter) bool {
	for _, x := range ds {
		if x == d {
			return true
		}
	}
	return false
}
