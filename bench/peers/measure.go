package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// line is one measurement: a median for each engine, less is better.
type line struct {
	What   string    `json:"what"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // by engine
	tokens int       // that the time is for, where a rate is of interest
}

// report is a whole run.
type report struct {
	Model     string   `json:"model"`
	Threads   int      `json:"threads"`
	Statistic string   `json:"statistic"` // "medians" or "fastest turns"
	Engines   []string `json:"engines"`
	Agreement float64  `json:"agreement"` // cosine of the engines' logits
	Lines     []line   `json:"lines"`
}

// The sampler's settings, from the common to the one that must look at all of
// the vocabulary.
var settings = []setting{
	{Name: "greedy"},
	{Name: "a server's defaults: top-k 40, top-p 0.9, min-p 0.1, T 0.8", Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.1},
	{Name: "top-k 40, top-p 0.95, min-p 0.05, T 0.8, repetition 1.1", Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Penalty: 1.1},
	{Name: "top-p 0.95, T 0.8", Temperature: 0.8, TopP: 0.95},
	{Name: "min-p 0.05, T 1", Temperature: 1, MinP: 0.05},
	{Name: "T 1", Temperature: 1},
}

const (
	samplerVocab = 131072
	samplerTimes = 20
	forwardTimes = 2
	// pause lets the threads of the engine that was busy go to sleep.
	pause = 30 * time.Millisecond
)

// bench is a run under way.
type bench struct {
	ctx    context.Context
	plan   plan
	agents []*agent
	say    func(format string, args ...any)
	report report
}

func measure(ctx context.Context, p plan, engines []engine, say func(string, ...any)) (r *report, err error) {
	b := &bench{ctx: ctx, plan: p, say: say, report: report{Model: p.model, Threads: p.threads, Statistic: "medians"}}
	if p.fastest {
		b.report.Statistic = "fastest turns"
	}
	if p.clock == "cpu" {
		b.report.Statistic += " of processor time"
	}
	for _, e := range engines {
		b.report.Engines = append(b.report.Engines, e.name)
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	steps := []func() error{
		func() error { return b.load(engines) }, b.check, b.forwards, b.prompts, b.memory, b.samplers,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &b.report, nil
}

func (b *bench) stop() error {
	var errs []error
	for _, a := range b.agents {
		if a != nil {
			errs = append(errs, a.stop())
		}
	}
	b.agents = nil
	return errors.Join(errs...)
}

// load starts all engines in turn, several times; the last ones stay.
func (b *bench) load(engines []engine) error {
	took := make([][]float64, len(engines))
	for range b.plan.loads {
		if err := b.stop(); err != nil {
			return err
		}
		for i, e := range engines {
			a, err := start(b.ctx, e)
			if err != nil {
				return err
			}
			b.agents = append(b.agents, a)
			took[i] = append(took[i], a.load)
			b.say("%s: loaded in %.0f ms", e.name, a.load)
		}
	}
	b.add("load", "ms", 0, took)
	return nil
}

func (b *bench) add(what, unit string, tokens int, took [][]float64) {
	l := line{What: what, Unit: unit, tokens: tokens}
	for _, v := range took {
		if b.plan.fastest {
			l.Values = append(l.Values, fastest(v))
		} else {
			l.Values = append(l.Values, median(v))
		}
	}
	b.report.Lines = append(b.report.Lines, l)
	b.say("%s: %.3f %s", what, l.Values, unit)
}

// median is the lower of the middle two of an even number.
func median(v []float64) float64 {
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

func fastest(v []float64) float64 { return slices.Min(v) }

// turns has all engines do a list of requests in turn, several times.
func (b *bench) turns(requests []request, repeats int) ([][][]float64, error) {
	took := make([][][]float64, len(requests)) // [request][engine]
	for i := range took {
		took[i] = make([][]float64, len(b.agents))
	}
	for range repeats {
		for e, a := range b.agents {
			time.Sleep(pause)
			for i, q := range requests {
				r, err := a.do(q)
				if err != nil {
					return nil, err
				}
				took[i][e] = append(took[i][e], r.MS...)
			}
		}
	}
	return took, nil
}

// check compares the first llama.cpp's logits with ours.
func (b *bench) check() error {
	var logits [][]float64
	for _, a := range b.agents {
		r, err := a.do(request{Op: "check"})
		if err != nil {
			return err
		}
		logits = append(logits, r.Logits)
	}
	if b.report.Agreement = 1; len(logits) > 1 {
		b.report.Agreement = cosine(logits[0], logits[1])
	}
	b.say("cosine of logits: %.5f", b.report.Agreement)
	if !(b.report.Agreement > 0.9) {
		return fmt.Errorf("the engines' logits have a cosine of %.3f: they do not run the same model", b.report.Agreement)
	}
	return nil
}

func cosine(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var ab, aa, bb float64
	for i := range a {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

// forwards measures decoding and forwards of k rows at every context.
func (b *bench) forwards() error {
	for _, c := range b.plan.contexts {
		requests := []request{{Op: "decode", Context: c, Tokens: b.plan.decode}}
		for _, k := range b.plan.rows {
			requests = append(requests, request{Op: "forward", Context: c, Tokens: k, Times: forwardTimes})
		}
		took, err := b.turns(requests, b.plan.repeats)
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("decode at %d", c), "ms/token", 1, took[0])
		for i, k := range b.plan.rows {
			b.add(fmt.Sprintf("%d rows at %d", k, c), "ms", 0, took[i+1])
		}
	}
	return nil
}

func (b *bench) prompts() error {
	took, err := b.turns([]request{{Op: "prompt", Tokens: b.plan.prompt}}, b.plan.repeats)
	if err == nil {
		b.add(fmt.Sprintf("prompt of %d", b.plan.prompt), "ms", b.plan.prompt, took[0])
	}
	return err
}

func (b *bench) memory() error {
	var peaks [][]float64
	for _, a := range b.agents {
		peaks = append(peaks, []float64{float64(a.peak()) / 1024})
	}
	b.add("peak memory", "MiB", 0, peaks)
	return nil
}

// samplers measures drawing from logits that all engines read from one file.
func (b *bench) samplers() error {
	f, err := os.CreateTemp("", "logits-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	random := rand.New(rand.NewPCG(2, 0))
	data := make([]byte, 0, 4*samplerVocab)
	for range samplerVocab {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(3*random.NormFloat64())))
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	var requests []request
	for _, s := range settings {
		requests = append(requests, request{Op: "sample", File: f.Name(), Setting: &s, Times: samplerTimes})
	}
	took, err := b.turns(requests, b.plan.repeats)
	if err != nil {
		return err
	}
	for i, s := range settings {
		b.add("sample: "+s.Name, "ms", 0, took[i])
	}
	return nil
}
