package live

import (
	"context"
	"fmt"
	"hash/fnv"

	"surmise/bench"
	"surmise/bench/prompts"
)

// Experiment is questions to be decoded in several ways.
type Experiment struct {
	// Groups are lanes that are compared with each other, those of one
	// temperature; the first lane of a group is plain decoding.
	Groups  [][]*Lane
	Encoder prompts.Encoder
	// Context and MaxNew decide which prompts fit.
	Context, MaxNew int
	// Seed is that of all noise; every request has its own, made from it.
	Seed uint64

	races int
}

// RequestSeed is the seed of a request of an experiment with a seed.
func RequestSeed(seed uint64, item string, turn int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d", seed, item, turn)
	return h.Sum64()
}

// Fits tells why a prompt of so many tokens cannot be answered in full; "" if it
// can. Requests that the context cuts short would say less about drafters.
func Fits(tokens, maxNew, context int) string {
	if room := context - max(maxNew, 1); tokens > room {
		return fmt.Sprintf("its prompt has %d tokens, but the context of %d leaves room for %d and an answer of %d", tokens, context, room, maxNew)
	}
	return ""
}

// Run decodes a question on all lanes. Later turns follow the answers of plain
// decoding. A question that does not fit, or whose later turn does not, is
// skipped from there on.
func (x *Experiment) Run(ctx context.Context, item prompts.Item) (bench.Line, error) {
	line := bench.Line{Item: item.ID}
	for _, lanes := range x.Groups {
		var answers []string
		for turn := range item.Turns {
			ids, err := x.Encoder.Encode(item.Turns, answers)
			if err != nil {
				return line, fmt.Errorf("question %s: %w", item.ID, err)
			}
			if why := Fits(len(ids), x.MaxNew, x.Context); why != "" {
				if turn == 0 {
					line.Skipped = why
				}
				break
			}
			x.races++
			got, err := Race(ctx, lanes, ids, RequestSeed(x.Seed, item.ID, turn), x.races%len(lanes))
			if err != nil {
				return line, fmt.Errorf("question %s: %w", item.ID, err)
			}
			line.Results = append(line.Results, Trials(lanes, got, item.ID, item.Category, turn)...)
			answers = append(answers, got[0].Text)
		}
	}
	return line, nil
}
