package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/kvcache"
	"surmise/model"
	"surmise/sampler"
	"surmise/tokenizer"
)

// server is the agent of surmise.
type server struct {
	model  *model.Model
	seq    *kvcache.Seq
	batch  model.Batch
	random *rand.Rand
	files  map[string][]float32
	now    clock
}

// clock gives the time since some moment.
type clock func() time.Duration

// clocks by name: on the wall, or what the process has computed for.
var clocks = map[string]clock{
	"wall": func() time.Duration { return time.Since(began) },
	"cpu":  processorTime,
}

var began = time.Now()

// serve loads a model and answers requests until there are no more.
func serve(args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 4 || clocks[args[3]] == nil {
		return errors.New("want a file, a number of threads, a number of positions and a clock: wall or cpu")
	}
	now := clocks[args[3]]
	threads, err1 := strconv.Atoi(args[1])
	room, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	base := statusKiB("/proc/self/status", "VmRSS")
	start := now()
	ck, err := checkpoint.Open(args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	if _, err := tokenizer.FromCheckpoint(ck); err != nil {
		return err
	}
	dev, err := cpu.New(cpu.Options{Threads: threads, ISA: cpu.ISAFromEnv()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	m, err := model.Open(dev, ck, model.Options{Context: room})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	load := now.since(start)
	s := &server{
		model: m, seq: m.Cache().Open(), batch: model.Batch{Rows: make([]model.Row, 1)},
		random: rand.New(rand.NewPCG(1, 0)), files: map[string][]float32{}, now: now,
	}
	defer s.seq.Close()
	enc := json.NewEncoder(out)
	if err := enc.Encode(reply{MS: []float64{load}, BaseKiB: base}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		r, err := s.answer(q)
		if err != nil {
			r = reply{Error: fmt.Sprintf("%s: %v", q.Op, err)}
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// since is the time since then in milliseconds.
func (c clock) since(then time.Duration) float64 {
	return float64(c()-then) / float64(time.Millisecond)
}

func (s *server) answer(q request) (reply, error) {
	switch q.Op {
	case "check":
		return s.check()
	case "decode":
		return s.decode(q)
	case "forward":
		return s.rows(q)
	case "prompt":
		return s.prompt(q)
	case "sample":
		return s.sample(q)
	}
	return reply{}, errors.New("no such request")
}

// forward computes tokens behind the sequence, with logits for the last.
func (s *server) forward(tokens []int32, logits int) (ms float64, err error) {
	s.batch.Rows[0] = model.Row{Seq: s.seq, Tokens: tokens, Logits: logits}
	start := s.now()
	err = s.model.Forward(&s.batch)
	return s.now.since(start), err
}

func (s *server) some(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = s.random.Int32N(int32(s.model.Spec().Vocab))
	}
	return tokens
}

// reach makes the sequence n tokens long.
func (s *server) reach(n int) error {
	if s.seq.Len() > n {
		return s.cut(n)
	}
	if s.seq.Len() == n {
		return nil
	}
	_, err := s.forward(s.some(n-s.seq.Len()), 0)
	return err
}

// cut drops what is behind n tokens. Sliding windows cannot be rolled back far:
// then the sequence begins anew.
func (s *server) cut(n int) error {
	if s.seq.Truncate(n) == nil {
		return nil
	}
	s.seq.Close()
	s.seq = s.model.Cache().Open()
	return s.reach(n)
}

func (s *server) check() (reply, error) {
	if err := s.cut(0); err != nil {
		return reply{}, err
	}
	var tokens []int32
	for t := range int32(32) {
		tokens = append(tokens, 3+t)
	}
	if _, err := s.forward(tokens, 1); err != nil {
		return reply{}, err
	}
	var r reply
	for _, v := range s.batch.Logits(0, 0)[:min(1024, s.model.Spec().Vocab)] {
		r.Logits = append(r.Logits, float64(v))
	}
	return r, s.cut(0)
}

func (s *server) decode(q request) (reply, error) {
	if err := s.reach(q.Context); err != nil {
		return reply{}, err
	}
	if _, err := s.forward(s.some(1), 1); err != nil {
		return reply{}, err
	}
	if err := s.cut(q.Context); err != nil {
		return reply{}, err
	}
	var r reply
	for range q.Tokens {
		ms, err := s.forward(s.some(1), 1)
		if err != nil {
			return reply{}, err
		}
		r.MS = append(r.MS, ms)
	}
	return r, s.cut(q.Context)
}

func (s *server) rows(q request) (reply, error) {
	if err := s.reach(q.Context); err != nil {
		return reply{}, err
	}
	var r reply
	for i := range q.Times + 1 {
		ms, err := s.forward(s.some(q.Tokens), q.Tokens)
		if err != nil {
			return reply{}, err
		}
		if i > 0 {
			r.MS = append(r.MS, ms)
		}
		if err := s.cut(q.Context); err != nil {
			return reply{}, err
		}
	}
	return r, nil
}

func (s *server) prompt(q request) (reply, error) {
	if err := s.cut(0); err != nil {
		return reply{}, err
	}
	ms, err := s.forward(s.some(q.Tokens), 1)
	if err != nil {
		return reply{}, err
	}
	return reply{MS: []float64{ms}}, s.cut(0)
}

// logitsOf reads a file of logits.
func (s *server) logitsOf(path string) ([]float32, error) {
	if l, ok := s.files[path]; ok {
		return l, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := make([]float32, len(data)/4)
	for i := range l {
		l[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	s.files[path] = l
	return l, nil
}

func (s *server) sample(q request) (reply, error) {
	logits, err := s.logitsOf(q.File)
	if err != nil || q.Setting == nil {
		return reply{}, errors.Join(err, errors.New("no setting"))
	}
	p := sampler.Default()
	p.Temperature, p.TopK, p.PenaltyLastN = q.Setting.Temperature, q.Setting.TopK, 64
	if q.Setting.TopP > 0 {
		p.TopP = q.Setting.TopP
	}
	p.MinP = q.Setting.MinP
	if q.Setting.Penalty > 0 {
		p.RepetitionPenalty = q.Setting.Penalty
	}
	p.FixSeed(func() uint64 { return 1 })
	var history []int32
	for t := range int32(64) {
		history = append(history, t*7)
	}
	chain, err := sampler.NewChain(p, sampler.Env{Vocab: len(logits), Pool: sampler.NewPool()}, history, 0)
	if err != nil {
		return reply{}, err
	}
	var r reply
	for i := range q.Times + 1 {
		start := s.now()
		d, err := chain.Sample(logits)
		if err != nil {
			return reply{}, err
		}
		if i > 0 {
			r.MS = append(r.MS, s.now.since(start))
		}
		chain.Accept(d.Token)
	}
	return r, nil
}
