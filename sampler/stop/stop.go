package stop

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Config says what ends an answer.
type Config struct {
	// Strings and Regexes (RE2) end the answer before their match.
	Strings []string
	Regexes []string
	// TokenIDs and EOS end it at the token, whose text is not shown.
	TokenIDs []int32
	EOS      []int32
	// IgnoreEOS takes EOS for ordinary tokens.
	IgnoreEOS bool
	// MinNew is the number of tokens before which nothing stops the answer. Stop
	// strings are looked for in the text from token number MinNew on.
	MinNew int
	// MaxNew is the number of tokens after which it ends; −1 for no limit.
	MaxNew int
}

// Reason is why an answer ended, as in finish_reason.
type Reason string

// The reasons. NotDone: it goes on.
const (
	NotDone Reason = ""
	Stop    Reason = "stop"
	Length  Reason = "length"
)

// Result is what one token changed.
type Result struct {
	// Text may be shown now. It is whole UTF-8.
	Text string
	// Tokens is how many of the tokens pushed so far, beyond those of earlier
	// results, belong to the answer shown: their text has been released. A token
	// of which a part is cut off by a stop counts, one behind the cut does not.
	Tokens int
	// Reason tells whether the answer ended and why; Match which stop string or
	// expression it was, Token which end token (−1 for none).
	Reason Reason
	Match  string
	Token  int32
}

// Done reports that the answer ended.
func (r Result) Done() bool { return r.Reason != NotDone }

// Stopper watches one answer. It is not safe for concurrent use.
type Stopper struct {
	ends    []int32
	min     int
	max     int
	strings []automaton
	regexes []expression
	keep    int // runes held back for the expressions

	count int
	held  []byte // text not yet shown
	from  int    // where in held stops are looked for
	last  rune   // the rune before held, or −1 at the start of the text
	ended []int  // for each token not yet released, where in held its text ends
	// partial says that the first of them has been shown in part.
	partial bool
	done    Result
}

// New returns a Stopper. A stop that is empty, an expression that is not valid
// or can match the empty text, and a negative limit are errors.
func New(c Config) (*Stopper, error) {
	if c.MinNew < 0 || c.MaxNew < -1 {
		return nil, fmt.Errorf("limits of %d to %d new tokens: want 0 or more, or −1 for no upper limit", c.MinNew, c.MaxNew)
	}
	s := &Stopper{min: c.MinNew, max: c.MaxNew, last: -1}
	s.ends = append(s.ends, c.TokenIDs...)
	if !c.IgnoreEOS {
		s.ends = append(s.ends, c.EOS...)
	}
	for i, text := range c.Strings {
		if text == "" {
			return nil, fmt.Errorf("stop string %d is empty: want at least one character", i)
		}
		s.strings = append(s.strings, newAutomaton(text))
	}
	for _, text := range c.Regexes {
		e, err := newExpression(text)
		if err != nil {
			return nil, fmt.Errorf("stop expression: %w", err)
		}
		s.regexes = append(s.regexes, e)
		s.keep = max(s.keep, min(e.length-1, maxHeld))
	}
	return s, nil
}

// maxHeld bounds the runes held back for an expression without a longest match.
const maxHeld = 4096

// Clone returns an independent copy, for a sequence that branches.
func (s *Stopper) Clone() *Stopper {
	c := *s
	c.held, c.ended = slices.Clone(s.held), slices.Clone(s.ended)
	c.strings = slices.Clone(s.strings)
	return &c
}

// Push takes the next emitted token and the text it adds (which may be empty
// while a character is incomplete) and returns what may be shown. After the end
// it changes nothing and returns only the reason.
func (s *Stopper) Push(token int32, text string) Result {
	if s.done.Done() {
		return s.done
	}
	if s.count >= s.min && slices.Contains(s.ends, token) {
		return s.finish(Result{Reason: Stop, Token: token}, len(s.held))
	}
	s.count++
	fresh := len(s.held)
	s.held = append(s.held, text...)
	s.ended = append(s.ended, len(s.held))
	if s.count < s.min {
		s.from = len(s.held)
	} else if m, ok := s.search(max(fresh, s.from)); ok {
		return s.finish(Result{Reason: Stop, Token: -1, Match: m.text}, m.start)
	}
	if s.max >= 0 && s.count >= s.max {
		return s.finish(Result{Reason: Length, Token: -1}, len(s.held))
	}
	return s.release(Result{Token: -1}, s.safe())
}

// End shows what is still held back, when the answer ends for a reason this
// package does not know: the context is full, or the caller gave up.
func (s *Stopper) End(reason Reason) Result {
	if s.done.Done() {
		return s.done
	}
	return s.finish(Result{Reason: reason, Token: -1}, len(s.held))
}

// finish ends the answer with the first n bytes of what is held.
func (s *Stopper) finish(r Result, n int) Result {
	start := s.begin()
	for _, end := range s.ended { // a token that begins at the cut or behind it is not shown
		if r.Match != "" && start >= n {
			break
		}
		r.Tokens++
		start = end
	}
	r.Text = strings.ToValidUTF8(string(s.held[:n]), "\uFFFD")
	s.held, s.ended = nil, nil
	s.done = Result{Reason: r.Reason, Match: r.Match, Token: r.Token}
	return r
}

// begin returns where the first token not yet released begins, relative to held.
func (s *Stopper) begin() int {
	if s.partial {
		return -1
	}
	return 0
}

// release shows the first n bytes of what is held.
func (s *Stopper) release(r Result, n int) Result {
	// A token without text of its own (part of a character) waits for the next.
	k, begin := 0, s.begin()
	for k < len(s.ended) && s.ended[k] <= n && begin < n {
		begin = s.ended[k]
		k++
	}
	r.Tokens = k
	s.partial = begin < n
	s.ended = s.ended[:copy(s.ended, s.ended[k:])]
	for i := range s.ended {
		s.ended[i] -= n
	}
	if n > 0 {
		r.Text = strings.ToValidUTF8(string(s.held[:n]), "\uFFFD")
		s.last, _ = utf8.DecodeLastRune(s.held[:n])
		s.held = s.held[:copy(s.held, s.held[n:])]
		s.from = max(0, s.from-n)
	}
	return r
}

// safe returns how many held bytes can no longer become part of a stop or of an
// incomplete character.
func (s *Stopper) safe() int {
	n := len(s.held)
	for _, a := range s.strings {
		n = min(n, len(s.held)-a.state)
	}
	if s.keep > 0 {
		i := len(s.held)
		for k := 0; k < s.keep && i > s.from; k++ {
			_, size := utf8.DecodeLastRune(s.held[:i])
			i -= size
		}
		n = min(n, i)
	}
	return min(n, len(s.held)-incomplete(s.held))
}

// incomplete returns the length of the start of a character at the end of b.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// found is a stop and where in held it starts and ends.
type found struct {
	start, end int
	text       string
}

// search looks for the stop that completes first in held[fresh:].
func (s *Stopper) search(fresh int) (best found, ok bool) {
	for i := fresh; i < len(s.held) && !ok; i++ {
		for j := range s.strings {
			a := &s.strings[j]
			if !a.step(s.held[i]) {
				continue
			}
			if start := i + 1 - len(a.text); !ok || start < best.start {
				best, ok = found{start, i + 1, a.text}, true
			}
		}
	}
	for _, e := range s.regexes {
		end := len(s.held)
		if ok {
			end = best.end
		}
		m, hit := e.first(s.held[s.from:end], fresh-s.from, s.before())
		m.start, m.end = m.start+s.from, m.end+s.from
		if hit && (!ok || m.end < best.end || m.start < best.start) {
			best, ok = m, true
		}
	}
	return best, ok
}

// before returns the rune before the text that expressions see, or −1.
func (s *Stopper) before() rune {
	if s.from == 0 {
		return s.last
	}
	r, _ := utf8.DecodeLastRune(s.held[:s.from])
	return r
}

// automaton finds one string (Knuth, Morris and Pratt, 1977). Its state is the
// length of the longest suffix of the text that the string begins with.
type automaton struct {
	text  string
	fail  []int
	state int
}

func newAutomaton(text string) automaton {
	fail := make([]int, len(text)+1)
	for i, k := 1, 0; i < len(text); i++ {
		for k > 0 && text[i] != text[k] {
			k = fail[k]
		}
		if text[i] == text[k] {
			k++
		}
		fail[i+1] = k
	}
	return automaton{text: text, fail: fail}
}

// step takes one byte and reports whether it completes the string.
func (a *automaton) step(b byte) bool {
	for a.state > 0 && a.text[a.state] != b {
		a.state = a.fail[a.state]
	}
	if a.text[a.state] == b {
		a.state++
	}
	if a.state < len(a.text) {
		return false
	}
	a.state = a.fail[a.state]
	return true
}
