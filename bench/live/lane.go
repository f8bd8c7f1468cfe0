package live

import (
	"time"

	"surmise/bench"
	"surmise/drafter"
	"surmise/engine"
	"surmise/model"
	"surmise/sampler"
	"surmise/tokenizer"
)

// Stopwatch is a clock that runs only between Start and Stop.
type Stopwatch struct {
	now     func() time.Time
	read    time.Time // when it stood still last
	since   time.Time // of now, while it runs
	running bool
}

// NewStopwatch makes a stopped one over a clock.
func NewStopwatch(now func() time.Time) *Stopwatch { return &Stopwatch{now: now, read: now()} }

// Now is the time shown.
func (s *Stopwatch) Now() time.Time {
	if s.running {
		return s.read.Add(s.now().Sub(s.since))
	}
	return s.read
}

// Start lets it run.
func (s *Stopwatch) Start() { s.since, s.running = s.now(), true }

// Stop halts it.
func (s *Stopwatch) Stop() { s.read, s.running = s.Now(), false }

// Lane is one way of decoding with all it needs. Lanes of a target share
// nothing but the target.
type Lane struct {
	Config bench.Config
	// Engine decodes, with Watch as its clock.
	Engine  *engine.Engine
	Watch   *Stopwatch
	Drafter drafter.Drafter // nil for plain decoding
	Params  sampler.Params

	counters *drafter.Counters
	before   map[drafter.Reason]int64
}

// LaneSetup is what a lane is made of.
type LaneSetup struct {
	Config bench.Config
	Target model.Target
	// Tokenizer is needed for text and for parameters that are text.
	Tokenizer *tokenizer.Tokenizer
	// Drafter is nil for plain decoding. A drafter that learns from stream to
	// stream belongs to one lane only.
	Drafter drafter.Drafter
	// Params are the parameters but for the temperature, which is the config's.
	Params sampler.Params
	// Costs are what the automatic width starts from; nil for nothing.
	Costs map[int]time.Duration
	Now   func() time.Time
	Warn  func(string)
	// Reference switches the sampler's fast paths off.
	Reference sampler.Reference
	// Wrap, if set, puts a policy around the width's.
	Wrap func(drafter.Width) drafter.Width
}

// NewLane makes a lane. The error is that of a width that is none.
func NewLane(s LaneSetup) (*Lane, error) {
	l := &Lane{Config: s.Config, Watch: NewStopwatch(s.Now), Drafter: s.Drafter, Params: s.Params}
	l.Params.Temperature = s.Config.Temperature
	o := engine.Options{Clock: l.Watch.Now, Warn: s.Warn, Reference: s.Reference}
	if s.Drafter != nil {
		var err error
		if o.Width, err = drafter.ParseWidth(s.Config.Width); err != nil {
			return nil, err
		}
		if _, own := o.Width.(drafter.Own); own {
			o.Width = drafter.NewAuto(drafter.NewCosts(s.Costs), drafter.MaxWidth)
		}
		if s.Wrap != nil {
			o.Width = s.Wrap(o.Width)
		}
		l.counters = drafter.NewCounters(s.Drafter.Contract())
		o.Counters = l.counters
	}
	l.Engine = engine.New(s.Target, s.Tokenizer, o)
	return l, nil
}

// request is the lane's request for a prompt.
func (l *Lane) request(prompt []int32, seed uint64, emit func(engine.Event)) engine.Request {
	p := l.Params
	p.Seed = &seed
	return engine.Request{Prompt: prompt, Params: p, Drafter: l.Drafter, Fresh: true, Emit: emit}
}

// declines are those counted since it was last asked.
func (l *Lane) declines() map[string]int64 {
	if l.counters == nil {
		return nil
	}
	now := l.counters.Declines(l.Drafter.Contract().Kind)
	var out map[string]int64
	for r, n := range now {
		if n -= l.before[r]; n > 0 {
			if out == nil {
				out = map[string]int64{}
			}
			out[string(r)] = n
		}
	}
	l.before = now
	return out
}
