package engine

import (
	"strings"

	"surmise/sampler"
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
func (a Answer) MeanLogprob() float64 { return a.scored().MeanLogprob() }

// scored is the answer as best-of sees it.
func (a Answer) scored() sampler.Answer {
	out := sampler.Answer{Text: a.Text}
	for _, t := range a.Tokens {
		out.Logprobs = append(out.Logprobs, t.Logprob)
	}
	return out
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

// Timings are those of all samples together, also of those that are not chosen.
// Tokens, rounds, drafts and declines are added up. Samples decode in the same
// rounds, in which the one that ends last has been all along, so times are its;
// the prompt is computed once for all of them.
func (c *Collector) Timings() Timings {
	var total Timings
	for i, a := range c.answers {
		t := a.Finish.Timings
		if i == 0 {
			total.PromptN, total.CachedN = t.PromptN, t.CachedN
		}
		total.add(t)
	}
	return total
}

// Best are the n answers chosen by rank, by vote or as drawn, best first; see
// sampler.Choice. By all of them, or with n of all samples, it is their order as
// drawn.
func (c *Collector) Best(by sampler.Choice, n int) ([]Answer, error) {
	if by == sampler.ChooseAll || n >= len(c.answers) {
		return c.answers, nil
	}
	candidates := make([]sampler.Answer, len(c.answers))
	for i, a := range c.answers {
		candidates[i] = a.scored()
	}
	chosen, err := by.Best(candidates, n)
	if err != nil {
		return nil, err
	}
	var out []Answer
	for _, i := range chosen {
		out = append(out, c.answers[i])
	}
	return out, nil
}
