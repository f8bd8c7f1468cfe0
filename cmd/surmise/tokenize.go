package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"surmise/tokenizer"
)

// tokenizeFlags are the flags of tokenize.
type tokenizeFlags struct {
	model        modelFlags
	text, file   string
	decode       string
	addSpecial   bool
	parseSpecial bool
	idsOnly      bool
	json         bool
}

func (a *app) tokenizeCommand() *cobra.Command {
	f := new(tokenizeFlags)
	cmd := &cobra.Command{
		Use:   "tokenize --prompt TEXT [--model PATH]",
		Short: "Show the tokens of a text, or the text of tokens",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.tokenize(cmd, f) },
	}
	f.model.addModelPath(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.text, "prompt", "p", "", "text")
	fl.StringVar(&f.file, "prompt-file", "", "file that holds the text; - is standard input")
	fl.StringVar(&f.decode, "prompt-ids", "", "token ids to turn into text, 1,2,3")
	fl.BoolVar(&f.addSpecial, "add-special", false, "put the tokens around the text that the model expects")
	fl.BoolVar(&f.parseSpecial, "parse-special", false, "read the spelling of control tokens as those tokens")
	fl.BoolVar(&f.idsOnly, "ids", false, "print the ids only, parted by commas")
	fl.BoolVar(&f.json, "json", false, "print one JSON object instead of text")
	return cmd
}

func (a *app) tokenize(cmd *cobra.Command, f *tokenizeFlags) (err error) {
	if f.json && f.idsOnly {
		return usage(errors.New("--json together with --ids: leave one of them out"))
	}
	p := promptFlags{text: f.text, file: f.file, ids: f.decode}
	text, ids, err := p.read(cmd, a.stdin)
	if err != nil {
		return err
	}
	ck, err := a.openCheckpoint(&f.model)
	if err != nil {
		return err
	}
	defer func() {
		if e := ck.Close(); err == nil {
			err = e
		}
	}()
	t, err := tokenizer.FromCheckpoint(ck)
	if err != nil {
		return err
	}
	if ids == nil {
		ids, err = t.Encode(text, tokenizer.EncodeOptions{AddSpecial: f.addSpecial, ParseSpecial: f.parseSpecial})
		if err != nil {
			return err
		}
	}
	for _, id := range ids {
		if int(id) >= t.VocabSize() {
			return fmt.Errorf("token %d is not of the vocabulary: want 0..%d", id, t.VocabSize()-1)
		}
	}
	return a.showTokens(t, ids, f)
}

// tokenInfo is a token as JSON.
type tokenInfo struct {
	ID      int32  `json:"id"`
	Piece   string `json:"piece"`
	Special bool   `json:"special,omitempty"`
}

func (a *app) showTokens(t *tokenizer.Tokenizer, ids []int32, f *tokenizeFlags) error {
	if f.json {
		out := struct {
			Text   string      `json:"text"`
			Count  int         `json:"count"`
			Tokens []tokenInfo `json:"tokens"`
		}{Text: t.Decode(ids, false), Count: len(ids), Tokens: []tokenInfo{}}
		for _, id := range ids {
			out.Tokens = append(out.Tokens, tokenInfo{id, string(t.Piece(id)), t.IsSpecial(id)})
		}
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(out)
	}
	w := bufio.NewWriter(a.stdout) // keeps the first error
	switch {
	case f.decode != "":
		fmt.Fprintln(w, t.Decode(ids, false))
	case f.idsOnly:
		for i, id := range ids {
			if i > 0 {
				w.WriteByte(',')
			}
			fmt.Fprint(w, id)
		}
		fmt.Fprintln(w)
	default:
		for _, id := range ids {
			mark := ""
			if t.IsSpecial(id) {
				mark = " special"
			}
			fmt.Fprintf(w, "%7d %q%s\n", id, t.Piece(id), mark)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the tokens: %w", err)
	}
	if f.decode == "" && !f.idsOnly {
		fmt.Fprintf(a.stderr, "%d tokens\n", len(ids))
	}
	return nil
}
