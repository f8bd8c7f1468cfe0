package drafter

// Trim cuts proposals down to what is worth verifying.
func (a *Auto) Trim(rows []*Row) {
	a.slots = a.slots[:0]
	proposed := false
	for n, r := range rows {
		s := a.round.rows[n]
		s.width = 0
		a.worked(s, r)
		if len(r.Proposal) == 0 {
			continue
		}
		proposed = true
		s.take(r, a)
		chance := 1.0
		for i := range r.Proposal {
			if chance *= s.chance(i); chance < hopeless {
				break
			}
			a.slots = append(a.slots, slot{n, i, chance})
		}
	}
	if !proposed {
		return
	}
	chosen := 0
	if !a.guard.holds() {
		chosen, _ = a.best(len(rows), false)
	}
	for _, s := range a.slots[:chosen] {
		r := a.round.rows[s.row]
		r.width = max(r.width, s.i+1)
	}
	for n, r := range rows {
		keep := a.round.rows[n].width
		if len(r.Proposal) <= keep {
			continue
		}
		r.Proposal = r.Proposal[:keep]
		r.Confidence = r.Confidence[:min(keep, len(r.Confidence))]
		if keep == 0 {
			r.Decline = Unprofitable
		}
	}
}

// worked notes whether the kind that takes time was at work for a row.
func (a *Auto) worked(s *autoRow, r *Row) {
	s.worked = s.asked > 0 && !s.kind.copies && (!s.composed || r.Source == s.kind.name)
	if !s.worked {
		return
	}
	// One more was drafted where confidence fell.
	s.kind.deepest = max(s.kind.deepest, min(len(r.Proposal)+1, s.asked))
	if len(r.Proposal) > 0 || r.Err != nil {
		return
	}
	// A slot that was asked for in vain did not survive.
	s.survival.vain(0)
	if r.Decline == Unsure {
		s.kind.survival.vain(0)
	}
}

// take copies the row's proposal, to compare it with what will be said.
func (s *autoRow) take(r *Row, a *Auto) {
	s.first, s.compared = r.Position+len(r.Known), 0
	s.tokens = append(s.tokens[:0], r.Proposal...)
	s.chances = append(s.chances[:0], r.Confidence...)
	s.match, s.source = r.Match, s.kind
	if r.Source != "" && r.Source != s.kind.name {
		s.source = a.kind(r.Source)
	}
	s.short = s.worked && len(r.Proposal) < s.asked
}

// chance is that of token i of the row's proposal.
func (s *autoRow) chance(i int) float64 {
	all := s.source.survival.of(i, s.confidence(i), s.match)
	own := &s.survival.sure[confidenceBin(s.confidence(i), s.match)][positionBin(i)]
	return own.mean(all, rowWeight)
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
	n, tokens, gained := 0, 0, 0
	drafted, tried := false, false
	for _, o := range outcomes {
		// Outcomes come in the order of rows, with those of others between them.
		at := n
		for at < len(a.round.rows) && a.round.rows[at].seq != o.Seq {
			at++
		}
		if at == len(a.round.rows) {
			continue
		}
		n = at + 1
		s := a.round.rows[at]
		right := a.compare(s, o)
		tokens += len(o.Committed)
		drafted = drafted || len(o.Proposed) > 0 || s.worked
		tried = tried || s.trying
		if s.trying {
			switch {
			case right == 0:
				s.kind.wait = min(2*s.kind.wait, longestWait)
			case right > 1 || o.Accepted > 0:
				s.kind.wait = max(s.kind.wait/4, shortestWait)
			}
			s.kind.until = s.kind.wait
		}
		if s.worked {
			gained += o.Accepted
		}
		if o.Ended {
			delete(a.rows, o.Seq)
		}
	}
	if !tried && cost.Rows == len(a.round.rows) {
		a.guard.learn(drafted, tokens, (cost.Verify + cost.Sample + cost.Draft).Seconds())
	}
	a.spend(cost, gained)
	a.forget()
}

// spend learns what drafting takes, when one kind alone was at work, and keeps the
// accounts; gained are the tokens that its proposals brought.
func (a *Auto) spend(cost Cost, gained int) {
	var worked *autoKind
	alone, begun := true, false
	for _, s := range a.round.rows {
		if !s.worked {
			continue
		}
		alone = alone && (worked == nil || worked == s.kind)
		worked = s.kind
		begun = begun || !s.begun
		s.begun = true
	}
	took := cost.Draft.Seconds()
	if worked != nil && alone {
		// What the drafting really took is paid, as far as it was not an accident of
		// the machine. A prompt the drafter had to read first is not its fault.
		plain := a.costs.Verify(a.round.base)
		usual := plain // of a kind that has hardly been asked, whose memory is cold
		if worked.draft.known() {
			usual = 4 * (worked.draft.at(float64(worked.deepest)) + worked.draft.debt(worked.owed))
		}
		paid := min(took, usual)
		if begun {
			paid = max(0, paid-worked.draft.debt(worked.owed))
		}
		worked.draft.learn(worked.deepest, worked.owed, took)
		wide := a.costs.Verify(max(cost.Tokens, 1))
		paid += clamp(cost.Verify.Seconds(), 0.5*wide, 2*wide) - plain - float64(gained)*plain/float64(max(len(a.round.rows), 1))
		worked.account -= paid
	}
	round := (cost.Verify + cost.Sample + cost.Draft).Seconds()
	most := mostSaved * a.costs.Verify(1)
	for _, k := range a.kinds {
		if k.present {
			k.account = min(k.account+paidIn*round, most)
		}
	}
}

// compare counts how the row's proposal fares as far as the stream is known, and
// returns how many of its tokens the target said in this round.
func (a *Auto) compare(s *autoRow, o *Outcome) int {
	right := 0
	for s.compared < len(s.tokens) {
		i := s.compared
		said := o.Pending
		switch at := s.first + i - o.Position; {
		case at < 0 || at > len(o.Committed):
			if at > len(o.Committed) {
				return right // what follows is not known yet
			}
			s.tokens, s.short = s.tokens[:0], false // the row was away when it was said
			return right
		case at < len(o.Committed):
			said = o.Committed[at]
		case o.Pending < 0:
			return right
		}
		token, confidence := s.tokens[i], s.confidence(i)
		s.source.survival.learn(i, confidence, s.match, said == token)
		s.survival.learn(i, confidence, s.match, said == token)
		s.compared++
		if !s.source.copies {
			a.kept.valid = a.kept.valid && said != token // good news: decide anew
		}
		if said != token {
			s.tokens, s.short = s.tokens[:0], false
			return right
		}
		right++
	}
	if s.short {
		s.short = false
		s.survival.vain(s.compared)
		s.source.survival.vain(s.compared)
	}
	s.tokens = s.tokens[:0]
	return right
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
