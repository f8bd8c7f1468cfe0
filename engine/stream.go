package engine

import (
	"slices"

	"surmise/sampler/stop"
	"surmise/tokenizer"
	"surmise/verify"
)

// stream turns a sample's tokens into events: it decodes them, lets the stop
// rules hold text back, and sends a token on when its text begins to be certain.
type stream struct {
	sample  int
	emit    func(Event)
	text    *tokenizer.Tokenizer // nil for ids only
	decoder *tokenizer.Decoder
	stopper *stop.Stopper
	held    []heldToken
}

// heldToken is a token with that part of its text which has not been sent.
type heldToken struct {
	token Token
	text  string
	begun bool // the token and the first part of its text have been sent
}

func (e *Engine) newStream(r *Request, sample, limit int) (stream, error) {
	p := r.Params
	c, err := stop.New(stop.Config{
		Strings: p.Stop, Regexes: p.StopRegex, TokenIDs: p.StopTokenIDs,
		EOS: e.env.EOS, IgnoreEOS: p.IgnoreEOS, MinNew: min(p.MinNewTokens, limit), MaxNew: limit,
	})
	if err != nil {
		return stream{}, err
	}
	s := stream{sample: sample, emit: r.Emit, text: e.text, stopper: c}
	if e.text != nil {
		s.decoder = e.text.NewDecoderAfter(r.Prompt, !r.KeepSpecial)
	}
	return s, nil
}

// push takes a drawn token and who proposed it, sends what is certain, and
// returns the end if this token is it. The last event is sent by finish.
func (s *stream) push(t verify.Token, source string) *Finish {
	text := ""
	if s.decoder != nil {
		text = s.decoder.Push(t.Token)
	}
	r := s.stopper.Push(t.Token, text)
	if r.Token >= 0 {
		// The token that ends an answer is no part of it.
		s.flush()
		return &Finish{Reason: Stop, Matched: s.name(t.Token), Token: t.Token}
	}
	t.Top = slices.Clone(t.Top)
	s.held = append(s.held, heldToken{token: Token{t.Token, t.Drafted, source, t.Logprob, t.Top}, text: text})
	s.send(len(r.Text))
	switch {
	case r.Reason == stop.Stop:
		s.held = nil
		return &Finish{Reason: Stop, Matched: r.Match, Token: -1}
	case r.Reason == stop.Length:
		s.flush()
		return &Finish{Reason: Length, Token: -1}
	case s.decoder == nil:
		s.flush()
	}
	return nil
}

// send sends the next n bytes of text with the tokens they belong to. A token
// without text goes with the text behind it, since it may be the beginning of a
// character that a stop string ends up swallowing.
func (s *stream) send(n int) {
	for n > 0 {
		h := &s.held[0]
		part := h.text[:min(n, len(h.text))]
		h.text = h.text[len(part):]
		n -= len(part)
		e := Event{Sample: s.sample, Text: part}
		if !h.begun {
			h.begun = true
			token := h.token
			e.Token = &token
		}
		s.emit(e)
		if h.text != "" {
			return
		}
		s.held = s.held[1:]
	}
}

// flush sends everything held back, tokens without text too.
func (s *stream) flush() {
	for _, h := range s.held {
		e := Event{Sample: s.sample, Text: h.text}
		if !h.begun {
			token := h.token
			e.Token = &token
		}
		if e.Token != nil || e.Text != "" {
			s.emit(e)
		}
	}
	s.held = s.held[:0]
	if s.decoder != nil {
		if rest := s.decoder.Flush(); rest != "" {
			s.emit(Event{Sample: s.sample, Text: rest})
		}
	}
}

// finish sends the last event. What was held back for a stop that cannot come
// any more goes out before it.
func (s *stream) finish(f Finish) {
	if f.Reason == Failed || f.Reason == Cancelled {
		s.flush()
	}
	s.emit(Event{Sample: s.sample, Finish: &f})
}

// name is how a token is shown: its text.
func (s *stream) name(id int32) string {
	if s.text == nil {
		return ""
	}
	return string(s.text.Piece(id))
}
