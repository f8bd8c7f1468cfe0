package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"surmise/tokenizer"
)

// promptFlags say what is continued.
type promptFlags struct {
	text, file, ids string
	system          string
	raw             bool
}

func (f *promptFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.text, "prompt", "p", "", "prompt")
	fl.StringVar(&f.file, "prompt-file", "", "file that holds the prompt; - is standard input")
	fl.StringVar(&f.ids, "prompt-ids", "", "prompt as token ids, 1,2,3; no template, nothing added")
	fl.StringVar(&f.system, "system", "", "system message for the chat template")
	fl.BoolVar(&f.raw, "raw", false, "continue the prompt as it is, without the chat template")
}

// read checks the flags and reads the prompt's text, or its ids.
func (f *promptFlags) read(cmd *cobra.Command, stdin io.Reader) (text string, ids []int32, err error) {
	given := 0
	for _, name := range []string{"prompt", "prompt-file", "prompt-ids"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	switch {
	case given == 0:
		return "", nil, usage(errors.New("no prompt: say --prompt TEXT, --prompt-file FILE or --prompt-ids IDS"))
	case given > 1:
		return "", nil, usage(errors.New("more than one of --prompt, --prompt-file and --prompt-ids: leave the others out"))
	case f.system != "" && (f.raw || f.ids != ""):
		return "", nil, usage(errors.New("--system goes through the chat template: leave out --raw and --prompt-ids"))
	case !utf8.ValidString(f.system):
		return "", nil, usage(checkUTF8("--system", f.system))
	case cmd.Flags().Changed("prompt-ids"):
		ids, err = parseIDs("--prompt-ids", f.ids)
		return "", ids, err
	case cmd.Flags().Changed("prompt"):
		return f.text, nil, usage(checkUTF8("--prompt", f.text))
	}
	text, err = readText("--prompt-file", f.file, stdin)
	return text, nil, err
}

// maxText is how many bytes a prompt may have: more than the longest context
// holds, and few enough that a device or an endless pipe fills no memory.
const maxText = 64 << 20

// readText reads a text file, or standard input for "-".
func readText(flag, path string, stdin io.Reader) (string, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", flag, err)
	case len(data) > maxText:
		return "", fmt.Errorf("%s: %s holds more than %d bytes: want a text that fits a context", flag, path, maxText)
	}
	text := string(data)
	return text, checkUTF8(flag+": "+path, text)
}

// checkUTF8 finds what no tokenizer could read while it can still be said where
// it came from.
func checkUTF8(what, text string) error {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return fmt.Errorf("%s is not valid UTF-8 at byte %d", what, i)
			}
		}
	}
	return nil
}

// parseIDs reads token ids parted by commas or spaces.
func parseIDs(flag, text string) ([]int32, error) {
	if strings.TrimSpace(text) == "" {
		return nil, usage(fmt.Errorf("%s: no ids: want numbers from 0 on, as in 1,2,3", flag))
	}
	var ids []int32
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			words = []string{""} // two commas in a row
		}
		for _, word := range words {
			n, err := strconv.ParseInt(word, 10, 32)
			if err != nil || n < 0 {
				return nil, usage(fmt.Errorf("%s: %q is not a token id: want numbers from 0 on, as in 1,2,3", flag, word))
			}
			ids = append(ids, int32(n))
		}
	}
	return ids, nil
}

// encode makes the prompt's tokens: through the chat template, if the model has
// one and it is wanted.
func (f *promptFlags) encode(t *tokenizer.Tokenizer, text string) ([]int32, error) {
	if f.raw || !t.HasChatTemplate() {
		if f.system != "" {
			return nil, errors.New("--system: the model has no chat template")
		}
		return encodePlain(t, text)
	}
	var messages []tokenizer.Message
	if f.system != "" {
		messages = append(messages, tokenizer.Message{Role: "system", Content: f.system})
	}
	return encodeChat(t, append(messages, tokenizer.Message{Role: "user", Content: text}))
}

// encodePlain encodes text to be continued. A model that puts nothing before a
// text still needs a token to continue an empty one.
func encodePlain(t *tokenizer.Tokenizer, text string) ([]int32, error) {
	ids, err := t.Encode(text, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	if err == nil && len(ids) == 0 {
		if t.BOS() < 0 {
			return nil, errors.New("the prompt is empty, and the model has no token to begin a text with")
		}
		ids = append(ids, t.BOS())
	}
	return ids, err
}

// encodeChat encodes a conversation for the model to answer.
func encodeChat(t *tokenizer.Tokenizer, messages []tokenizer.Message) ([]int32, error) {
	text, err := t.ApplyChat(messages, tokenizer.ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		return nil, err
	}
	return t.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
}
