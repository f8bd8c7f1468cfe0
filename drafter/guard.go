package drafter

// guard is what makes sure that the automatic width never loses for long, whatever
// is wrong with the estimates it decides by: it compares the tokens per second of
// rounds that drafted with those of rounds that did not, and when drafting was
// slower stops it for a while, ever longer. Now and then it asks for a plain round,
// so that there is something to compare with.
type guard struct {
	rows           int // of the batch: rounds of other sizes are not compared
	plain, drafted pace
	pause          int // rounds left without drafting
	backoff        int // of the next pause
	streak, limit  int // rounds drafted in a row, and how many there may be
}

// pace is a fading sum of tokens and of the time they took.
type pace struct{ tokens, seconds, rounds float64 }

const (
	paceMemory    = 0.98
	fewPlain      = 4
	fewDrafted    = 16
	shortPause    = 32
	longPause     = 1024
	shortStreak   = 16
	longStreak    = 128
	clearlyFaster = 1.1
)

func (p *pace) add(tokens int, seconds float64) {
	p.tokens = p.tokens*paceMemory + float64(tokens)
	p.seconds = p.seconds*paceMemory + seconds
	p.rounds = p.rounds*paceMemory + 1
}

// begin notes a round's number of rows.
func (g *guard) begin(rows int) {
	if g.rows != rows {
		*g = guard{rows: rows, pause: g.pause, backoff: max(g.backoff, shortPause), limit: max(g.limit, shortStreak)}
	}
	g.pause = max(g.pause-1, 0)
}

// holds tells that the round shall be a plain one.
func (g *guard) holds() bool { return g.pause > 0 || g.streak >= g.limit }

// learn takes what a round brought and took.
func (g *guard) learn(drafted bool, tokens int, seconds float64) {
	if !drafted {
		g.plain.add(tokens, seconds)
		if g.streak >= g.limit {
			g.limit = min(2*g.limit, longStreak)
		}
		g.streak = 0
		return
	}
	g.drafted.add(tokens, seconds)
	g.streak++
	if g.plain.rounds < fewPlain || g.drafted.rounds < fewDrafted {
		return
	}
	// tokens/seconds against tokens/seconds, without dividing by what may be 0.
	fast, slow := g.drafted.tokens*g.plain.seconds, g.plain.tokens*g.drafted.seconds
	switch {
	case fast < slow:
		g.pause, g.drafted = g.backoff, pace{}
		g.backoff = min(2*g.backoff, longPause)
	case fast > clearlyFaster*slow:
		g.backoff = shortPause
	}
}
