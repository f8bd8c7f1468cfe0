package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// agentArg makes this program serve requests as the engine surmise.
const agentArg = "agent"

// request is one line to an agent, reply one line back.
type request struct {
	// Op is "check", "decode", "forward", "prompt" or "sample".
	Op string `json:"op"`
	// Context is how many positions are cached before; the agent fills or cuts
	// its sequence first, untimed.
	Context int `json:"context"`
	// Tokens are to be decoded or prefilled, or are rows of a forward.
	Tokens int `json:"tokens"`
	// Times is how often a forward or a draw is timed, after one that is not.
	Times int `json:"times"`
	// File holds logits in f32 to sample from, Setting what with.
	File    string   `json:"file,omitempty"`
	Setting *setting `json:"setting,omitempty"`
}

type reply struct {
	Error string `json:"error,omitempty"`
	// MS are times in milliseconds: of each token of "decode", of the whole
	// "prompt", of each forward, of each draw; of loading in the first line.
	MS []float64 `json:"ms"`
	// Logits are the first ones of a fixed text's last token.
	Logits []float64 `json:"logits,omitempty"`
	// BaseKiB is VmRSS before loading, in the first line.
	BaseKiB int64 `json:"base_kib,omitempty"`
}

// setting is a sampler's parameters; zero values are off.
type setting struct {
	Name        string  `json:"name"`
	Temperature float64 `json:"temperature"`
	TopK        int     `json:"top_k"`
	TopP        float64 `json:"top_p"`
	MinP        float64 `json:"min_p"`
	Penalty     float64 `json:"penalty"` // repetition, over the last 64 tokens
}

// engine is how to start an agent.
type engine struct {
	name    string
	command string
	args    []string
}

//go:embed llamacpp.py
var llamaSource string

// engines are surmise and llama.cpp with its settings.
func (p plan) engines() ([]engine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	python, err := exec.LookPath(p.python)
	if err != nil {
		return nil, fmt.Errorf("find Python: %w (--python PATH names one that can import llama_cpp)", err)
	}
	if out, err := exec.Command(python, "-c", "import llama_cpp, numpy").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("%s cannot import llama_cpp: %s (pip install llama-cpp-python, or --python PATH)", python, lines[len(lines)-1])
	}
	common := []string{p.model, strconv.Itoa(p.threads), strconv.Itoa(p.room()), p.clock}
	return []engine{
		{"surmise", self, append([]string{agentArg}, common...)},
		{"llama.cpp", python, append([]string{"-c", llamaSource, "auto"}, common...)},
		{"llama.cpp, no flash attention", python, append([]string{"-c", llamaSource, "off"}, common...)},
	}, nil
}

// agent is an engine's process.
type agent struct {
	engine engine
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors output
	load   float64 // ms
	base   int64   // KiB
}

// output is what a process has written so far; it may be read meanwhile.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// lastLine is the last line written.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := strings.TrimSpace(o.text.String())
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// start starts an engine and waits until it has loaded the model.
func start(ctx context.Context, e engine) (*agent, error) {
	a := &agent{engine: e, cmd: exec.CommandContext(ctx, e.command, e.args...)}
	a.cmd.Stderr = &a.errors
	a.cmd.WaitDelay = time.Second
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	a.out = bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	r, err := a.read()
	if err == nil && len(r.MS) != 1 {
		err = fmt.Errorf("%s: its first line has no loading time", e.name)
	}
	if err != nil {
		return nil, errors.Join(err, a.stop())
	}
	a.load, a.base = r.MS[0], r.BaseKiB
	return a, nil
}

func (a *agent) read() (reply, error) {
	var r reply
	line, err := a.out.ReadBytes('\n')
	if err != nil {
		return r, fmt.Errorf("%s: %w: %s", a.engine.name, err, a.errors.lastLine())
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("%s: reply %.80q: %w", a.engine.name, line, err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s: %s", a.engine.name, r.Error)
	}
	return r, nil
}

// do has a request done.
func (a *agent) do(q request) (reply, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return reply{}, err
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("%s: %w: %s", a.engine.name, err, a.errors.lastLine())
	}
	return a.read()
}

// peak is the most memory the process has taken since it began to load, in KiB;
// 0 where the system does not tell.
func (a *agent) peak() int64 {
	n := statusKiB(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid), "VmHWM")
	return max(n-a.base, 0)
}

// statusKiB reads a field of a process's status, 0 where there is none.
func statusKiB(path, field string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n
		}
	}
	return 0
}

// stop ends the process, which leaves when its input ends.
func (a *agent) stop() error {
	a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", a.engine.name, err, a.errors.lastLine())
	}
	return nil
}
