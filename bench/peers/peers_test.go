package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/bench/peers/randommodel"
)

// TestMain lets this test's program be an agent, as the command's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == agentArg {
		if err := serve(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func tinyPlan(t *testing.T) plan {
	t.Helper()
	p := plan{
		model: filepath.Join(t.TempDir(), "m.gguf"), python: os.Getenv("SURMISE_PEERS_PYTHON"),
		threads: 2, clock: "wall", contexts: []int{0, 70}, rows: []int{1, 8}, repeats: 2, loads: 2, decode: 3, prompt: 20,
	}
	f, err := os.Create(p.model)
	require.NoError(t, err)
	require.NoError(t, randommodel.Write(f, "tiny", "q8_0", 1))
	require.NoError(t, f.Close())
	return p
}

func self(p plan) engine {
	return engine{"self", os.Args[0], []string{agentArg, p.model, "2", fmt.Sprint(p.room()), "wall"}}
}

// Two agents of one kind go through the whole plan and agree to the bit.
func TestARunMeasuresEverythingInThePlan(t *testing.T) {
	p := tinyPlan(t)
	r, err := measure(context.Background(), p, []engine{self(p), self(p)}, t.Logf)
	require.NoError(t, err)
	require.InDelta(t, 1, r.Agreement, 1e-9)
	var whats []string
	for _, l := range r.Lines {
		whats = append(whats, l.What)
		require.Len(t, l.Values, 2)
		require.Positive(t, l.Values[0], l.What)
	}
	want := []string{
		"load", "decode at 0", "1 rows at 0", "8 rows at 0", "decode at 70", "1 rows at 70", "8 rows at 70",
		"prompt of 20", "peak memory",
	}
	for _, s := range settings {
		want = append(want, "sample: "+s.Name)
	}
	require.Equal(t, want, whats)

	var text, object bytes.Buffer
	require.NoError(t, r.print(&text))
	require.Equal(t, 4+len(want), strings.Count(text.String(), "\n"))
	require.NoError(t, r.printJSON(&object))
	require.True(t, json.Valid(object.Bytes()))
}

// llama.cpp computes what surmise does, where a Python that has it is named by
// SURMISE_PEERS_PYTHON.
func TestLlamaCppRunsTheSameModel(t *testing.T) {
	p := tinyPlan(t)
	if p.python == "" {
		t.Skip("SURMISE_PEERS_PYTHON names no Python with llama_cpp")
	}
	engines, err := p.engines()
	require.NoError(t, err)
	engines[0] = self(p)
	r, err := measure(context.Background(), p, engines, t.Logf)
	require.NoError(t, err)
	require.Greater(t, r.Agreement, 0.99)
}

func TestAgentsThatFailAreNamed(t *testing.T) {
	p := tinyPlan(t)
	missing := self(p)
	missing.args[1] = "no-such-file.gguf"
	_, err := measure(context.Background(), p, []engine{missing}, t.Logf)
	require.ErrorContains(t, err, "self")
	require.ErrorContains(t, err, "no-such-file.gguf")

	a, err := start(context.Background(), self(p))
	require.NoError(t, err)
	_, err = a.do(request{Op: "dance"})
	require.ErrorContains(t, err, "dance: no such request")
	_, err = a.do(request{Op: "forward", Context: p.room(), Tokens: 1})
	require.ErrorContains(t, err, "forward: ")
	_, err = a.do(request{Op: "forward", Context: 1, Tokens: 1, Times: 1})
	require.NoError(t, err, "an agent outlives a failed request")
	require.NoError(t, a.stop())

	_, err = plan{python: "no-such-python"}.engines()
	require.ErrorContains(t, err, "--python")
	if sh, e := exec.LookPath("false"); e == nil {
		_, err = plan{python: sh}.engines()
		require.ErrorContains(t, err, "cannot import llama_cpp")
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for text, args := range map[string][]string{
		"no model":          {},
		`argument "extra"`:  {"--model", "m", "extra"},
		`rows: "0"`:         {"--model", "m", "--rows", "0"},
		"rows: 65":          {"--model", "m", "--rows", "1,65"},
		`contexts: "3,2"`:   {"--model", "m", "--contexts", "3,2"},
		"say --threads 1":   {"--model", "m", "--clock", "cpu"},
		"must be 1 or more": {"--model", "m", "--repeats", "0"},
		`rows: "1,x"`:       {"--model", "m", "--rows", "1,x"},
	} {
		_, err := parse(args, io.Discard)
		require.ErrorContains(t, err, text)
	}
}

func TestHelpIsNoError(t *testing.T) {
	var help bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-h"}, io.Discard, &help))
	require.Contains(t, help.String(), "-python")
}

func TestProcessorTimeGrowsWithWork(t *testing.T) {
	start, sum := processorTime(), 0.0
	for range 1 << 20 {
		sum += cosine([]float64{1, 2}, []float64{3, 4})
	}
	require.Positive(t, sum)
	require.Greater(t, processorTime(), start)
}

func TestRatiosAreToTheBestOfTheOthers(t *testing.T) {
	l := line{Values: []float64{2, 6, 5}, tokens: 10}
	require.InDelta(t, 2.5, l.ratio(), 1e-9)
	require.InDelta(t, 5000, l.rate(l.Values[0]), 1e-9)
	require.Equal(t, "-", digits(line{Values: []float64{2}}.ratio()))
	require.InDelta(t, 3, median([]float64{9, 3, 1, 7}), 1e-9)
	require.InDelta(t, 1, fastest([]float64{9, 3, 1, 7}), 1e-9)
	require.InDelta(t, 1, cosine([]float64{1, 2}, []float64{2, 4}), 1e-12)
	require.InDelta(t, 0, cosine([]float64{1, 0}, []float64{0, 4}), 1e-12)
}
