package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"surmise/engine"
)

// None is the kind of plain decoding.
const None = "none"

// Config is one way of decoding.
type Config struct {
	// Kind is the draft kind, Draft the draft model as the user named it.
	Kind  string `json:"kind"`
	Draft string `json:"draft_model,omitempty"`
	// Width is the cap on proposals, a number or "auto"; empty without a drafter.
	Width       string  `json:"width,omitempty"`
	Temperature float64 `json:"temperature"`
}

// Plain tells that nothing drafts.
func (c Config) Plain() bool { return c.Kind == None }

// Baseline is plain decoding at the same temperature.
func (c Config) Baseline() Config { return Config{Kind: None, Temperature: c.Temperature} }

// String is the name of the config in tables: unique within a report.
func (c Config) String() string {
	s := c.Label()
	if c.Temperature != 0 {
		s += " T=" + strconv.FormatFloat(c.Temperature, 'g', -1, 64)
	}
	return s
}

// Label is the name without the temperature.
func (c Config) Label() string {
	if c.Plain() {
		return "plain"
	}
	s := c.Kind
	if c.Draft != "" {
		d := strings.TrimRight(c.Draft, "/")
		s += "(" + d[strings.LastIndexByte(d, '/')+1:] + ")"
	}
	return s + " k=" + c.Width
}

// Trial is one request decoded in one way. Times are in seconds.
type Trial struct {
	Item     string `json:"item"`
	Category string `json:"category"`
	Turn     int    `json:"turn"`

	PromptTokens int `json:"prompt_tokens"`
	// Tokens is how many were drawn, an end token included.
	Tokens int    `json:"tokens"`
	Finish string `json:"finish_reason"`
	// PromptSeconds is the time to the first token, DecodeSeconds the time of
	// all others.
	PromptSeconds float64 `json:"prompt_s"`
	DecodeSeconds float64 `json:"decode_s"`
	Counts        Counts  `json:"counts"`
	// Same tells that text and tokens are those of plain decoding; nil where
	// nothing was compared.
	Same *bool `json:"same,omitempty"`
}

// Latency is the time from request to last token.
func (t Trial) Latency() float64 { return t.PromptSeconds + t.DecodeSeconds }

// Key names the request within an experiment.
func (t Trial) Key() string { return t.Item + "#" + strconv.Itoa(t.Turn) }

// TrialOf takes the counts and times of an answer.
func TrialOf(item, category string, turn int, a *engine.Answer) Trial {
	m := &a.Finish.Timings
	return Trial{
		Item: item, Category: category, Turn: turn,
		PromptTokens: m.PromptN + m.CachedN, Tokens: m.PredictedN, Finish: string(a.Finish.Reason),
		PromptSeconds: seconds(m.Prompt), DecodeSeconds: seconds(m.Predicted), Counts: CountsOf(&m.Draft),
	}
}

// Series is all trials of one config.
type Series struct {
	Config   Config           `json:"config"`
	Trials   []Trial          `json:"trials"`
	Declines map[string]int64 `json:"declines,omitempty"`
}

// Gather adds trials to the series of their configs, which keep the order in
// which they first came.
type Gather struct{ Series []*Series }

// Of finds or makes a config's series.
func (g *Gather) Of(c Config) *Series {
	for _, s := range g.Series {
		if s.Config == c {
			return s
		}
	}
	s := &Series{Config: c}
	g.Series = append(g.Series, s)
	return s
}

// Add adds a trial; a request that the config has already is an error.
func (g *Gather) Add(c Config, t Trial) error {
	s := g.Of(c)
	if slices.ContainsFunc(s.Trials, func(o Trial) bool { return o.Key() == t.Key() }) {
		return fmt.Errorf("%s has request %s twice", c, t.Key())
	}
	s.Trials = append(s.Trials, t)
	return nil
}

// Decline adds to the counts of declines.
func (s *Series) Decline(reasons map[string]int64) {
	for r, n := range reasons {
		if n == 0 {
			continue
		}
		if s.Declines == nil {
			s.Declines = map[string]int64{}
		}
		s.Declines[r] += n
	}
}
