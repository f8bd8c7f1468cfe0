// Command peers measures surmise and llama.cpp on the same GGUF file, in turn
// and in one run, and prints the times and their ratios.
//
//	go run ./bench/peers/mkgguf --shape qwen3-0.6b --type q8_0 -o q8.gguf
//	go run ./bench/peers --model q8.gguf [--python PATH] [--json]
//
// llama.cpp runs through llama-cpp-python, in a Python that --python names; by
// default python3 must be able to import llama_cpp. Each engine is a process of
// its own, which is told over a pipe what to do; while one works, the others
// wait. llama.cpp takes part with flash attention left to itself and switched
// off, and ratios are to the better of the two in each line. Measured are:
//
//   - loading: checkpoint, tokenizer, weights, cache, by fresh processes in turn
//     (run twice for a warm page cache);
//   - decoding: forwards of one token, one after the other, with logits;
//   - forwards of k rows with logits for all of them, as verifying needs them,
//     each rolled back;
//   - the prompt: 512 tokens into an empty cache, logits for the last;
//   - memory: VmHWM at the end, less what the process had taken before loading;
//   - sampling: llama.cpp's sampler chain and surmise's with the same settings,
//     over a vocabulary of 131,072.
//
// On a machine that is busy with other things, --threads 1 --clock cpu
// measures what each engine's one thread computes, however often it is
// interrupted, and --fastest takes the best turns.
//
// A line at the top says how well the engines' logits agree, which shows that
// both run the same model.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
)

// plan says what is measured.
type plan struct {
	model, python  string
	threads        int
	contexts, rows []int
	repeats, loads int
	decode, prompt int
	json, fastest  bool
	clock          string // "wall" or "cpu"
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == agentArg {
		if err := serve(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "peers: surmise:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (plan, error) {
	var p plan
	var contexts, rows string
	fl := flag.NewFlagSet("peers", flag.ContinueOnError)
	fl.SetOutput(stderr)
	fl.StringVar(&p.model, "model", "", "GGUF file that both engines run")
	fl.StringVar(&p.python, "python", "python3", "Python that can import llama_cpp")
	fl.IntVar(&p.threads, "threads", 2, "workers of each engine")
	fl.StringVar(&contexts, "contexts", "256,2048", "cached positions to measure at")
	fl.StringVar(&rows, "rows", "1,2,3,4,6,8,12,16,24,32", "numbers of rows of a forward")
	fl.IntVar(&p.repeats, "repeats", 5, "turns of each measurement")
	fl.IntVar(&p.loads, "loads", 3, "fresh processes that load")
	fl.IntVar(&p.decode, "decode", 32, "tokens decoded in a turn")
	fl.IntVar(&p.prompt, "prompt", 512, "tokens of the prompt")
	fl.BoolVar(&p.fastest, "fastest", false, "report the fastest turns instead of medians, on a machine that other work disturbs")
	fl.StringVar(&p.clock, "clock", "wall", "wall, or cpu: processor time, for machines that are busy with other things (with --threads 1)")
	fl.BoolVar(&p.json, "json", false, "print one JSON object instead of tables")
	if err := fl.Parse(args); err != nil {
		return p, err
	}
	var errs [2]error
	p.contexts, errs[0] = numbers("contexts", contexts, 0)
	p.rows, errs[1] = numbers("rows", rows, 1)
	if err := errors.Join(errs[:]...); err != nil {
		return p, err
	}
	switch {
	case fl.NArg() > 0:
		return p, fmt.Errorf("argument %q is not a flag", fl.Arg(0))
	case p.model == "":
		return p, errors.New("no model: say --model FILE, a GGUF file (see mkgguf)")
	case p.threads < 1 || p.repeats < 1 || p.loads < 1 || p.decode < 1 || p.prompt < 1:
		return p, errors.New("threads, repeats, loads, decode and prompt must be 1 or more")
	}
	if clocks[p.clock] == nil {
		return p, fmt.Errorf("--clock %q: want wall or cpu", p.clock)
	}
	if p.clock == "cpu" && p.threads != 1 {
		return p, errors.New("--clock cpu: workers that wait for each other use processor time too: say --threads 1")
	}
	for _, k := range p.rows {
		if k > maxRows {
			return p, fmt.Errorf("rows: %d: want 1 to %d", k, maxRows)
		}
	}
	return p, nil
}

// maxRows is how many rows agents can roll back.
const maxRows = 64

// numbers reads numbers parted by commas, in rising order.
func numbers(name, text string, least int) ([]int, error) {
	var out []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < least || n > 1<<20 || len(out) > 0 && n <= out[len(out)-1] {
			return nil, fmt.Errorf("%s: %q: want rising numbers from %d on, as in 1,2,4", name, text, least)
		}
		out = append(out, n)
	}
	return out, nil
}

// room is how many positions a cache must have for the plan.
func (p plan) room() int {
	longest := p.contexts[len(p.contexts)-1]
	return max(longest+max(p.decode, maxRows), p.prompt)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	p, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil // parse has printed it
	}
	if err != nil {
		return err
	}
	engines, err := p.engines()
	if err != nil {
		return err
	}
	r, err := measure(ctx, p, engines, func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) })
	if err != nil {
		return err
	}
	if p.json {
		return r.printJSON(stdout)
	}
	return r.print(stdout)
}
