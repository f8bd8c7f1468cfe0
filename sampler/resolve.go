package sampler

import (
	"fmt"
	"strconv"
	"strings"
)

// resolve turns texts into token ids and finds out what state is needed.
func (c *core) resolve() error {
	p := &c.params
	if c.env.Constraint == nil {
		if err := p.CheckBuilt(); err != nil {
			return err
		}
	}
	for _, id := range c.env.EOS {
		if id >= 0 && int(id) < c.env.Vocab {
			c.eos = append(c.eos, id)
		}
	}
	for _, b := range p.LogitBias {
		id := b.Token
		if b.Text != "" {
			ids, err := c.encode("logit_bias", b.Text)
			if err != nil {
				return err
			}
			if len(ids) != 1 {
				return &FieldError{"logit_bias", strconv.Quote(b.Text), "a text of one token; this one is " + c.pieces(ids)}
			}
			id = ids[0]
		}
		if err := c.addBias("logit_bias", id, b.Bias); err != nil {
			return err
		}
	}
	for _, g := range p.LanguageBias {
		for _, id := range g.Tokens {
			if err := c.addBias("language_bias", id, g.Bias); err != nil {
				return err
			}
		}
	}
	for _, id := range p.SuppressTokens {
		if err := c.addBias("suppress_tokens", id, banBias); err != nil {
			return err
		}
	}
	for _, id := range p.StopTokenIDs {
		if int(id) >= c.env.Vocab {
			return c.noToken("stop_token_ids", id)
		}
	}
	c.dryOn = p.DRYMultiplier > 0 && p.DRYPenaltyLastN != 0
	repetition := p.RepetitionPenalty != 1 && p.PenaltyLastN != 0
	c.needTokens = c.dryOn || p.NoRepeatNgramSize > 1 || (repetition && p.PenaltyLastN > 0)
	c.needPrompt = c.needTokens || repetition || p.NoRepeatNgramSize == 1
	c.needHistory = c.needPrompt || p.FrequencyPenalty != 0 || p.PresencePenalty != 0
	if !c.dryOn {
		return nil
	}
	return c.resolveBreakers()
}

func (c *core) resolveBreakers() error {
	for _, b := range c.params.DRYSequenceBreakers {
		ids := []int32{b.Token}
		if int(b.Token) >= c.env.Vocab {
			return c.noToken("dry_sequence_breakers", b.Token)
		}
		if b.Text != "" {
			var err error
			if ids, err = c.encode("dry_sequence_breakers", b.Text); err != nil {
				return err
			}
			if len(ids) == 0 {
				continue
			}
		}
		c.breakers = append(c.breakers, ids)
	}
	return nil
}

func (c *core) encode(field, text string) ([]int32, error) {
	if c.env.Encode == nil {
		return nil, &FieldError{field, strconv.Quote(text), "a token id: there is no tokenizer"}
	}
	ids, err := c.env.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: tokenizing %q: %w", field, text, err)
	}
	return ids, nil
}

// pieces lists tokens for a message: 12 "he", 34 "llo".
func (c *core) pieces(ids []int32) string {
	var list []string
	for _, id := range ids {
		text := strconv.Itoa(int(id))
		if c.env.Piece != nil {
			text += " " + strconv.Quote(string(c.env.Piece(id)))
		}
		list = append(list, text)
	}
	return fmt.Sprintf("%d tokens: %s", len(ids), strings.Join(list, ", "))
}

func (c *core) noToken(field string, id int32) error {
	return &FieldError{field, strconv.Itoa(int(id)), fmt.Sprintf("a token id from 0 to %d", c.env.Vocab-1)}
}

func (c *core) addBias(field string, id int32, v float64) error {
	switch {
	case id < 0 || int(id) >= c.env.Vocab:
		return c.noToken(field, id)
	case v <= banBias:
		c.bans = append(c.bans, id)
	case v != 0:
		c.bias = append(c.bias, idBias{id, float32(v)})
	}
	return nil
}
