package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"time"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/model"
)

func main() {
	path, rows, ctx, secs := os.Args[1], atoi(os.Args[2]), atoi(os.Args[3]), atoi(os.Args[4])
	start := time.Now()
	if len(os.Args) > 5 && os.Args[5] == "load" {
		f, _ := os.Create("/tmp/load.prof")
		pprof.StartCPUProfile(f)
	}
	ck, err := checkpoint.Open(path)
	check(err)
	dev, err := cpu.New(cpu.Options{Threads: threads(), ISA: cpu.ISAFromEnv()})
	check(err)
	m, err := model.Open(dev, ck, model.Options{Context: 4096})
	check(err)
	fmt.Println("load", time.Since(start))
	pprof.StopCPUProfile()
	seq := m.Cache().Open()
	toks := func(n int) []int32 {
		t := make([]int32, n)
		for i := range t {
			t[i] = int32(i*7919) % int32(m.Spec().Vocab)
			if t[i] < 0 {
				t[i] = -t[i]
			}
		}
		return t
	}
	b := &model.Batch{Rows: make([]model.Row, 1)}
	if ctx > 0 {
		b.Rows[0] = model.Row{Seq: seq, Tokens: toks(ctx)}
		t := time.Now()
		check(m.Forward(b))
		fmt.Println("prefill", ctx, time.Since(t))
	}
	b.Rows[0] = model.Row{Seq: seq, Tokens: toks(rows), Logits: rows}
	for range 3 {
		check(m.Forward(b))
		check(seq.Truncate(ctx))
	}
	f, _ := os.Create("/tmp/fwd.prof")
	pprof.StartCPUProfile(f)
	best := time.Hour
	n := 0
	for t0 := time.Now(); time.Since(t0) < time.Duration(secs)*time.Second; n++ {
		t := time.Now()
		check(m.Forward(b))
		best = min(best, time.Since(t))
		check(seq.Truncate(ctx))
	}
	pprof.StopCPUProfile()
	fmt.Println("rows", rows, "best", best, "n", n)
}
func threads() int {
	if s := os.Getenv("T"); s != "" {
		return atoi(s)
	}
	return 2
}
func atoi(s string) int { n, e := strconv.Atoi(s); check(e); return n }
func check(e error) {
	if e != nil {
		panic(e)
	}
}
