package prompts

import (
	"errors"
	"fmt"

	"surmise/tokenizer"
)

// Encoder makes token ids of conversations.
type Encoder struct {
	Tokenizer *tokenizer.Tokenizer
	// Raw continues texts as they are, though the model has a chat template.
	Raw bool
}

// Chat tells that questions go through the model's chat template.
func (e Encoder) Chat() bool { return !e.Raw && e.Tokenizer.HasChatTemplate() }

// Encode is the prompt of turn len(answers): the turns up to it with the answers
// in between. Without a chat template they are put together with empty lines.
func (e Encoder) Encode(turns, answers []string) ([]int32, error) {
	n := len(answers)
	if n >= len(turns) {
		return nil, fmt.Errorf("turn %d of %d", n+1, len(turns))
	}
	if !e.Chat() {
		text := ""
		for i, a := range answers {
			text += turns[i] + a + "\n\n"
		}
		ids, err := e.Tokenizer.Encode(text+turns[n], tokenizer.EncodeOptions{AddSpecial: true})
		if err == nil && len(ids) == 0 {
			err = errors.New("the prompt has no tokens")
		}
		return ids, err
	}
	var messages []tokenizer.Message
	for i, a := range answers {
		messages = append(messages, tokenizer.Message{Role: "user", Content: turns[i]}, tokenizer.Message{Role: "assistant", Content: a})
	}
	text, err := e.Tokenizer.ApplyChat(append(messages, tokenizer.Message{Role: "user", Content: turns[n]}),
		tokenizer.ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		return nil, err
	}
	return e.Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
}
