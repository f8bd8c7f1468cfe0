package recording

import (
	"context"
	"fmt"

	"surmise/bench/live"
	"surmise/bench/prompts"
	"surmise/engine"
)

// LocalSource records a target of this program.
type LocalSource struct {
	// Lane decodes plainly, with an Observer of the header's layers as drafter.
	Lane     *live.Lane
	Observer *Observer
	Encoder  prompts.Encoder
	Context  int
	MaxNew   int
	Seed     uint64
}

// Record answers those turns of a question that the writer does not have yet.
func (l *LocalSource) Record(ctx context.Context, w *Writer, q prompts.Item) error {
	var answers []string
	for turn := range q.Turns {
		if have := w.Find(Key(q.ID, turn)); have != nil {
			if have.Skipped != "" {
				return nil
			}
			answers = append(answers, have.Text)
			continue
		}
		ids, err := l.Encoder.Encode(q.Turns, answers)
		if err != nil {
			return fmt.Errorf("question %s: %w", q.ID, err)
		}
		item := Item{ID: q.ID, Category: q.Category, Turn: turn, Prompt: ids, Seed: live.RequestSeed(l.Seed, q.ID, turn)}
		if item.Skipped = live.Fits(len(ids), l.MaxNew, l.Context); item.Skipped != "" {
			item.Prompt = nil
			return w.Append(item, nil)
		}
		item.Limit = l.Lane.Engine.Limit(len(ids), l.MaxNew)
		if err := l.RecordIDs(ctx, w, item); err != nil {
			return fmt.Errorf("question %s: %w", q.ID, err)
		}
		answers = append(answers, w.Find(item.Key()).Text)
	}
	return nil
}

// RecordIDs answers an item, of which prompt, limit and seed are given.
func (l *LocalSource) RecordIDs(ctx context.Context, w *Writer, item Item) error {
	l.Lane.Params.MaxNewTokens = item.Limit
	got, err := live.Race(ctx, []*live.Lane{l.Lane}, item.Prompt, item.Seed, 0)
	if err != nil {
		return err
	}
	hidden := item.take(&got[0], l.Observer)
	return w.Append(item, hidden)
}

// take fills in what was seen of an answer.
func (i *Item) take(a *engine.Answer, o *Observer) (hidden [][]float32) {
	tokens, hidden := o.Stream()
	i.Tokens, i.Text, i.Finish = tokens[len(i.Prompt):], a.Text, string(a.Finish.Reason)
	t := &a.Finish.Timings
	i.PromptSeconds, i.DecodeSeconds, i.SampleSeconds = t.Prompt.Seconds(), t.Predicted.Seconds(), t.Draft.Sample.Seconds()
	i.RoundSeconds = max(t.Predicted-t.Draft.Verify-t.Draft.Sample-t.Draft.Draft, 0).Seconds()
	return hidden
}
