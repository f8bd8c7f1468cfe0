package engine

import (
	"slices"
	"strings"
)

// Answer is what a sample came to.
type Answer struct {
	Sample int
	Text   string
	Tokens []Token
	Finish Finish
}

// IDs are the answer's token ids.
func (a Answer) IDs() []int32 {
	ids := make([]int32, len(a.Tokens))
	for i, t := range a.Tokens {
		ids[i] = t.ID
	}
	return ids
}

// MeanLogprob is the mean log probability of the answer's tokens; it needs
// parameters that report log probabilities. Without tokens it is 0.
func (a Answer) MeanLogprob() float64 {
	var sum float64
	for _, t := range a.Tokens {
		sum += t.Logprob
	}
	return sum / float64(max(len(a.Tokens), 1))
}

// Collector puts the events of a request together.
type Collector struct {
	texts   []strings.Builder
	answers []Answer
}

// NewCollector collects so many samples.
func NewCollector(samples int) *Collector {
	c := &Collector{texts: make([]strings.Builder, samples), answers: make([]Answer, samples)}
	for i := range c.answers {
		c.answers[i].Sample = i
	}
	return c
}

// Add takes an event: give it to Request.Emit.
func (c *Collector) Add(e Event) {
	a := &c.answers[e.Sample]
	c.texts[e.Sample].WriteString(e.Text)
	if e.Token != nil {
		a.Tokens = append(a.Tokens, *e.Token)
	}
	if e.Finish != nil {
		a.Finish = *e.Finish
		a.Text = c.texts[e.Sample].String()
	}
}

// Answers are the samples in order.
func (c *Collector) Answers() []Answer { return c.answers }

// Best are the n answers with the greatest mean log probability, best first,
// the earlier sample of equals. With n of all samples it is their order as
// drawn.
func (c *Collector) Best(n int) []Answer {
	if n >= len(c.answers) {
		return c.answers
	}
	ranked := slices.Clone(c.answers)
	slices.SortStableFunc(ranked, func(a, b Answer) int {
		switch x, y := a.MeanLogprob(), b.MeanLogprob(); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return ranked[:n]
}
