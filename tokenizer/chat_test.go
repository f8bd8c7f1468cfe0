package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chatCase is one conversation of testdata/chats.json.
type chatCase struct {
	Messages            []map[string]json.RawMessage `json:"messages"`
	Tools               []json.RawMessage            `json:"tools"`
	AddGenerationPrompt bool                         `json:"add_generation_prompt"`
	Extra               map[string]any               `json:"extra"`
}

func (c *chatCase) build(tb testing.TB) ([]Message, ChatOptions) {
	var msgs []Message
	for _, fields := range c.Messages {
		m := Message{Extra: map[string]any{}}
		require.NoError(tb, json.Unmarshal(fields["role"], &m.Role))
		if json.Unmarshal(fields["content"], &m.Content) != nil {
			m.Extra["content"] = fields["content"]
		}
		for name, value := range fields {
			if name != "role" && name != "content" {
				m.Extra[name] = value
			}
		}
		msgs = append(msgs, m)
	}
	opts := ChatOptions{
		AddGenerationPrompt: c.AddGenerationPrompt, Extra: c.Extra,
		Now: time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC),
	}
	for _, tool := range c.Tools {
		opts.Tools = append(opts.Tools, tool)
	}
	return msgs, opts
}

func TestGivenConversationsTemplatesRenderAsPythonsJinja2(t *testing.T) {
	var cases []chatCase
	data, err := os.ReadFile("testdata/chats.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &cases))
	var expected map[string][]*string
	data, err = os.ReadFile("testdata/chats.expected.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &expected))
	for name, want := range expected {
		t.Run(name, func(t *testing.T) {
			template, real := "", !strings.HasSuffix(name, ".jinja")
			if name == "smollm2.gguf" {
				template = realGGUF(t, "smollm2-135m-instruct").ChatTemplate()
			} else if real {
				cfg, err := parseConfig(realFile(t, name, "tokenizer_config.json"))
				require.NoError(t, err)
				template = cfg.templates[0].Template
			} else {
				src, err := os.ReadFile(filepath.Join("testdata/templates", name))
				require.NoError(t, err)
				template = string(src)
			}
			for i := range cases {
				msgs, opts := cases[i].build(t)
				got, err := RenderChat(template, msgs, opts, map[string]any{"bos_token": "<s>", "eos_token": "</s>"})
				if want[i] != nil && *want[i] == "?" {
					continue
				}
				if want[i] == nil {
					require.Error(t, err, "conversation %d gave %q", i, got)
					continue
				}
				require.NoError(t, err, "conversation %d", i)
				if real {
					got = digest([]byte(got), 12)
				}
				require.Equal(t, *want[i], got, "conversation %d", i)
			}
		})
	}
}

func TestGivenHostileTemplatesRenderFailsWithAnError(t *testing.T) {
	for name, c := range map[string]struct{ template, message string }{
		"endless recursion":   {`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`, "deep"},
		"two macros":          {`{%- macro f(x) -%}{{ g(x) }}{%- endmacro -%}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ g(1) }}`, "deep"},
		"a huge range":        {`{% for i in range(10000000000) %}x{% endfor %}`, "range"},
		"a range overflowing": {`{% for i in range(9223372036854775800, 9223372036854775807, 100) %}x{% endfor %}{{ range(0, 10, 0) }}`, "range"},
		"deep brackets":       {`{{ ` + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + ` }}`, "nested"},
		"deep blocks":         {strings.Repeat("{% if true %}", 5000) + strings.Repeat("{% endif %}", 5000), "nested"},
		"not closed":          {`{% if true %}x`, "template"},
		"an open tag":         {`x {{ "`, "without an end"},
		"an unknown filter":   {`{{ 1 | nosuchfilter }}`, "nosuchfilter"},
		"too long":            {strings.Repeat("x", maxTemplate+1), "long"},
		"an undefined value":  {`{{ nothing | tojson }}`, "undefined"},
		"its own refusal":     {`{{ raise_exception("no such role") }}`, "no such role"},
		"a bad directive":     {`{{ strftime_now("%Q") }}`, "%Q"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := RenderChat(c.template, nil, ChatOptions{Now: time.Unix(0, 0)}, nil)
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestGivenMacrosThatRecurseWithinReasonTheyRenderUnchanged(t *testing.T) {
	const template = "{%- macro tree(n) %}\n  ({%- if n > 0 -%}{{ tree(n - 1) }}{%- endif %} )\n{%- endmacro -%}\n{{ tree(3) }}|{{ tree(1) }}"
	got, err := RenderChat(template, nil, ChatOptions{}, nil)
	require.NoError(t, err)
	require.Equal(t, "  (  (  (  ( ) ) ) )|  (  ( ) )", got)
}

func TestGivenNoClockTemplatesSeeNone(t *testing.T) {
	got, err := RenderChat(`{{ strftime_now("%Y") if strftime_now is defined else "none" }}`, nil, ChatOptions{}, nil)
	require.NoError(t, err)
	require.Equal(t, "none", got)
}

func TestGivenNamedTemplatesToolsChooseTheirOwn(t *testing.T) {
	config := []byte(`{"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]}`)
	tok, err := FromFiles(tinyVariant(t, "bytelevel", nil), nil, config)
	require.NoError(t, err)
	got, err := tok.ApplyChat(nil, ChatOptions{})
	require.NoError(t, err)
	require.Equal(t, "plain", got)
	got, err = tok.ApplyChat(nil, ChatOptions{Tools: []any{map[string]any{"type": "function"}}})
	require.NoError(t, err)
	require.Equal(t, "tools", got)
}

func TestGivenNoTemplateApplyChatSaysSo(t *testing.T) {
	tok, err := FromFiles(tinyVariant(t, "bytelevel", nil), nil, nil)
	require.NoError(t, err)
	require.False(t, tok.HasChatTemplate())
	_, err = tok.ApplyChat([]Message{{Role: "user", Content: "hi"}}, ChatOptions{})
	require.ErrorIs(t, err, ErrNoChatTemplate)
}
