package recording

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surmise/bench/live"
	"surmise/bench/prompts"
	"surmise/bench/remote"
	"surmise/tokenizer"
)

// ServerSource records what a server says. It is safe for concurrent use.
type ServerSource struct {
	Client    *remote.Client
	Encoder   prompts.Encoder
	Tokenizer *tokenizer.Tokenizer
	// Body are the fields of every request but max_tokens and seed.
	Body    map[string]any
	Context int
	MaxNew  int
	Seed    uint64
	// EOS are the end tokens; one is put behind an answer that stopped without.
	EOS []int32
}

// Record answers those turns of a question that the writer does not have yet.
func (s *ServerSource) Record(ctx context.Context, w *Writer, q prompts.Item) error {
	var answers []string
	for turn := range q.Turns {
		if have := w.Find(Key(q.ID, turn)); have != nil {
			if have.Skipped != "" {
				return nil
			}
			answers = append(answers, have.Text)
			continue
		}
		ids, err := s.Encoder.Encode(q.Turns, answers)
		if err != nil {
			return fmt.Errorf("question %s: %w", q.ID, err)
		}
		item := Item{ID: q.ID, Category: q.Category, Turn: turn, Prompt: ids, Seed: live.RequestSeed(s.Seed, q.ID, turn)}
		if item.Skipped = live.Fits(len(ids), s.MaxNew, s.Context); item.Skipped != "" {
			item.Prompt = nil
			return w.Append(item, nil)
		}
		if err := s.ask(ctx, &item); err != nil {
			return fmt.Errorf("question %s: %w", q.ID, err)
		}
		if err := w.Append(item, nil); err != nil {
			return err
		}
		if item.Skipped != "" {
			return nil // what follows an answer that cannot be used cannot either
		}
		answers = append(answers, item.Text)
	}
	return nil
}

// ask fills in the server's answer.
func (s *ServerSource) ask(ctx context.Context, item *Item) error {
	body := map[string]any{}
	for k, v := range s.Body {
		body[k] = v
	}
	room := s.Context - len(item.Prompt)
	item.Limit = room
	if s.MaxNew >= 0 {
		item.Limit = min(room, s.MaxNew)
	}
	// Servers keep seeds in signed integers of 32 or 64 bits.
	body["max_tokens"], body["seed"] = item.Limit, item.Seed%math.MaxInt32
	answer, err := s.Client.Complete(ctx, remote.Request{Prompt: item.Prompt, Body: body})
	if err != nil {
		return err
	}
	item.Text, item.Finish = answer.Text, answer.Finish
	item.PromptSeconds, item.DecodeSeconds = answer.First.Seconds(), (answer.Total - answer.First).Seconds()
	tokens := answer.Tokens
	if len(tokens) == 0 {
		if tokens, err = s.retokenize(answer.Text); err != nil {
			item.Skipped = err.Error()
			return nil
		}
		item.Retokenized = true
	}
	if answer.Finish == "stop" && len(s.EOS) > 0 && (len(tokens) == 0 || !slices.Contains(s.EOS, tokens[len(tokens)-1])) {
		tokens = append(tokens, s.EOS[0])
	}
	item.cut(tokens, s.EOS)
	return nil
}

// cut takes the tokens up to the first that ends a text, and notes what cannot
// be replayed.
func (i *Item) cut(tokens, eos []int32) {
	for n, t := range tokens {
		if slices.Contains(eos, t) {
			tokens = tokens[:n+1]
			break
		}
	}
	if len(tokens) == 0 {
		i.Skipped = "the server's answer is empty"
		return
	}
	i.Tokens = tokens
	i.Limit = max(i.Limit, len(tokens))
}

// retokenize makes ids of a text that give it back exactly.
func (s *ServerSource) retokenize(text string) ([]int32, error) {
	ids, err := s.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
	if err != nil {
		return nil, fmt.Errorf("the server gives no token ids, and its text cannot be tokenized: %w", err)
	}
	if back := s.Tokenizer.Decode(ids, false); back != text {
		return nil, fmt.Errorf("the server gives no token ids, and the tokenizer does not give its text back: %q became %q", clip(text), clip(back))
	}
	return ids, nil
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
