package bench

import (
	"fmt"
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
	return c.Drafter() + " k=" + c.Width
}

// Drafter is the kind with the last part of the draft model's path.
func (c Config) Drafter() string {
	if c.Draft == "" {
		return c.Kind
	}
	d := strings.TrimRight(c.Draft, "/")
	return c.Kind + "(" + d[strings.LastIndexByte(d, '/')+1:] + ")"
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
	// Declines counts rounds without a proposal by reason.
	Declines map[string]int64 `json:"declines,omitempty"`
	// Same tells that text and tokens are those of plain decoding; nil where
	// nothing was compared.
	Same *bool `json:"same,omitempty"`
}

// Latency is the time from request to last token.
func (t Trial) Latency() float64 { return t.PromptSeconds + t.DecodeSeconds }

// Untimed forgets the times: they are not known.
func (t *Trial) Untimed() {
	t.PromptSeconds, t.DecodeSeconds = 0, 0
	t.Counts.DraftSeconds, t.Counts.VerifySeconds, t.Counts.SampleSeconds = 0, 0, 0
}

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

// Result is a trial of a config.
type Result struct {
	Config Config `json:"config"`
	Trial  Trial  `json:"trial"`
}

// Line is what is stored of a question: all its trials, or why there are none.
type Line struct {
	Item    string   `json:"item"`
	Skipped string   `json:"skipped,omitempty"`
	Results []Result `json:"results,omitempty"`
}

// Series is all trials of one config.
type Series struct {
	Config Config
	Trials []Trial

	seen map[string]bool
}

// Gather puts results together: into series by config, in the order in which
// they first come.
type Gather struct {
	Series []*Series
	// Skipped are the questions without trials, with the reasons.
	Skipped map[string]string
}

// Of finds or makes a config's series.
func (g *Gather) Of(c Config) *Series {
	for _, s := range g.Series {
		if s.Config == c {
			return s
		}
	}
	s := &Series{Config: c, seen: map[string]bool{}}
	g.Series = append(g.Series, s)
	return s
}

// Add adds a line. A request that a config has already is an error.
func (g *Gather) Add(l Line) error {
	if l.Skipped != "" {
		if g.Skipped == nil {
			g.Skipped = map[string]string{}
		}
		g.Skipped[l.Item] = l.Skipped
	}
	for _, r := range l.Results {
		s := g.Of(r.Config)
		if s.seen[r.Trial.Key()] {
			return fmt.Errorf("%s has request %s twice", r.Config, r.Trial.Key())
		}
		s.seen[r.Trial.Key()] = true
		s.Trials = append(s.Trials, r.Trial)
	}
	return nil
}
