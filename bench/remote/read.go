package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// chunk is a piece of a streamed answer, or a whole one.
type chunk struct {
	Choices []choice        `json:"choices"`
	Error   json.RawMessage `json:"error"`
}

// choice has the ids under the name of vLLM and SGLang, or of llama-server.
type choice struct {
	Index    int     `json:"index"`
	Text     string  `json:"text"`
	TokenIDs []int32 `json:"token_ids"`
	Tokens   []int32 `json:"tokens"`
	Finish   *string `json:"finish_reason"`
}

func (c *choice) ids() []int32 {
	if len(c.TokenIDs) > 0 {
		return c.TokenIDs
	}
	return c.Tokens
}

// errCut is an answer without its end.
var errCut = errors.New("the answer was cut short: no finish reason came")

// collect puts pieces together.
type collect struct {
	answer  Completion
	text    bytes.Buffer
	missing bool // a piece with text had no ids
	ended   bool
}

func (k *collect) add(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("a piece of the answer is not JSON: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return fmt.Errorf("the server reports in its stream: %.300s", c.Error)
	}
	for i := range c.Choices {
		x := &c.Choices[i]
		if x.Index != 0 {
			continue
		}
		k.text.WriteString(x.Text)
		ids := x.ids()
		k.answer.Tokens = append(k.answer.Tokens, ids...)
		k.missing = k.missing || x.Text != "" && len(ids) == 0
		if x.Finish != nil && *x.Finish != "" {
			k.answer.Finish, k.ended = *x.Finish, true
		}
	}
	return nil
}

func (k *collect) done() (Completion, error) {
	if !k.ended {
		return Completion{}, errCut
	}
	k.answer.Text = k.text.String()
	if k.missing {
		// Ids of a part are worse than none: the text decides.
		k.answer.Tokens = nil
	}
	return k.answer, nil
}

// readStream reads server-sent events up to [DONE] or the end. begun is called
// with every piece.
func readStream(r io.Reader, begun func()) (Completion, error) {
	k := new(collect)
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// A line without its end is half a line.
			return k.done()
		}
		if err != nil {
			return Completion{}, err
		}
		data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if !ok {
			continue // comments, event names, empty lines
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return k.done()
		}
		begun()
		if err := k.add(data); err != nil {
			return Completion{}, err
		}
	}
}

// readWhole reads an answer of a server that does not stream.
func readWhole(r io.Reader) (Completion, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return Completion{}, err
	}
	k := new(collect)
	if err := k.add(data); err != nil {
		return Completion{}, err
	}
	return k.done()
}
