package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant", "tool", …
	Content string
	// Extra holds further fields that templates know, such as tool_calls,
	// reasoning_content or tool_call_id; "content" here, a list of parts say,
	// takes the place of Content. Values may be anything encoding/json can
	// write; a json.RawMessage keeps the order of its keys.
	Extra map[string]any
}

// ChatOptions says how a conversation is rendered.
type ChatOptions struct {
	// AddGenerationPrompt ends the text with the start of the assistant's turn.
	AddGenerationPrompt bool
	// Tools are function definitions, as templates expect them: objects of
	// OpenAI's form. Values as in Message.Extra.
	Tools []any
	// Extra holds further variables of the template, such as enable_thinking.
	Extra map[string]any
	// Now is the date that strftime_now shows. When zero, templates see no
	// clock and fall back to a date of their own.
	Now time.Time
}

// HasChatTemplate reports whether the checkpoint came with a chat template.
func (t *Tokenizer) HasChatTemplate() bool { return t.template != "" || len(t.namedTemplates) > 0 }

// ChatTemplate returns the source of the chat template in Jinja, or "".
func (t *Tokenizer) ChatTemplate() string { return t.chooseTemplate(false) }

func (t *Tokenizer) chooseTemplate(tools bool) string {
	if text, ok := t.namedTemplates["tool_use"]; ok && (tools || t.template == "") {
		return text
	}
	if t.template == "" && len(t.namedTemplates) > 0 {
		return t.namedTemplates[slices.Min(slices.Collect(maps.Keys(t.namedTemplates)))]
	}
	return t.template
}

// ErrNoChatTemplate is returned by [Tokenizer.ApplyChat] when the checkpoint
// has none.
var ErrNoChatTemplate = errors.New("tokenizer: the checkpoint has no chat template")

// ApplyChat renders a conversation as the model's chat template says, the way
// Hugging Face's apply_chat_template does (trim_blocks, lstrip_blocks, special
// tokens as variables, tojson without escapes). The text holds its own special
// tokens: encode it with ParseSpecial and without AddSpecial. A template that
// refuses the conversation (raise_exception) is an error with its message.
func (t *Tokenizer) ApplyChat(msgs []Message, opts ChatOptions) (string, error) {
	if !t.HasChatTemplate() {
		return "", ErrNoChatTemplate
	}
	vars := map[string]any{}
	for name, text := range t.specials {
		vars[name] = text
	}
	out, err := RenderChat(t.chooseTemplate(len(opts.Tools) > 0), msgs, opts, vars)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w", err)
	}
	return out, nil
}

// RenderChat renders a template that need not belong to a tokenizer; vars are
// further variables, such as bos_token. ApplyChat says what it guarantees. A
// template comes with a checkpoint: its size, its nesting, the depth of its
// macros and its ranges are limited, but one that builds a value holding itself
// and prints it still exhausts the stack. Render templates of checkpoints you
// would run.
func RenderChat(template string, msgs []Message, opts ChatOptions, vars map[string]any) (out string, err error) {
	defer func() { // the library's accessors panic on values of another type
		if p := recover(); p != nil {
			out, err = "", fmt.Errorf("chat template: %v", p)
		}
	}()
	source, err := prepareTemplate(template)
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	compiled, err := jinja.Compile(source)
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	data, err := chatVariables(msgs, opts, vars)
	if err != nil {
		return "", err
	}
	if out, err = compiled.RenderValues(data); err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return out, nil
}

// chatVariables builds what the template sees.
func chatVariables(msgs []Message, opts ChatOptions, vars map[string]any) (map[string]jinja.Value, error) {
	data := map[string]jinja.Value{
		"add_generation_prompt": jinja.NewBool(opts.AddGenerationPrompt),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
		"strftime_now":          jinja.Undefined(),
	}
	addTemplateFunctions(data)
	if !opts.Now.IsZero() {
		data["strftime_now"] = jinja.NewCallable("strftime_now", strftimeAt(opts.Now))
	}
	turns := make([]jinja.Value, len(msgs))
	for i, m := range msgs {
		v, err := m.value()
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		turns[i] = v
	}
	data["messages"] = jinja.NewList(turns)
	if len(opts.Tools) > 0 {
		v, err := toJinja(opts.Tools)
		if err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		data["tools"] = v
	}
	for _, more := range []map[string]any{vars, opts.Extra} {
		for name, value := range more {
			v, err := toJinja(value)
			if err != nil {
				return nil, fmt.Errorf("template variable %q: %w", name, err)
			}
			data[name] = v
		}
	}
	return data, nil
}

// value is the message as templates see it: role, content, then the others by
// name.
func (m Message) value() (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	d.Set("role", jinja.NewString(m.Role))
	d.Set("content", jinja.NewString(m.Content))
	for _, name := range slices.Sorted(maps.Keys(m.Extra)) {
		field, err := toJinja(m.Extra[name])
		if err != nil {
			return v, fmt.Errorf("%s: %w", name, err)
		}
		d.Set(name, field)
	}
	return v, nil
}
