package engine_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/compute/cpu"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/costs"
	"surmise/engine/kinds"
	"surmise/internal/testmodels"
	"surmise/tokenizer"
)

// BenchmarkEdit measures prompt lookup where it is at its best: a file of 100
// lines repeated with one identifier renamed. The answer is replayed, since a
// small model would not write it; what is measured is the speed such an answer
// comes at, automatic width against plain decoding in turns of 64 tokens. Run it
// with
//
//	go test ./engine -run '^$' -bench Edit -benchtime 1x
func BenchmarkEdit(b *testing.B) {
	all, err := kinds.All()
	require.NoError(b, err)
	in, err := engine.Open(engine.Setup{
		Model: testmodels.Path(b, "smollm2-135m-instruct"), Context: 4096, ISA: cpu.ISAFromEnv(), Threads: benchThreads, Kinds: all,
		Draft:  engine.DraftSetup{Kind: drafter.Lookup},
		Engine: engine.Options{Clock: benchClock},
		Costs: func(in *engine.Instance) map[int]time.Duration {
			return costs.ForStart(context.Background(), costs.Store{}, in.Model, "", benchClock)
		},
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, in.Close()) })
	source, err := os.ReadFile("../verify/round.go")
	require.NoError(b, err)
	file := strings.Join(strings.SplitAfter(string(source), "\n")[:100], "")
	prompt := tokensOf(b, in, "Repeat this file with Verifier renamed to Checker.\n\n"+file+"\n\nThe file with the new name:\n\n")
	answer := tokensOf(b, in, strings.ReplaceAll(file, "Verifier", "Checker"))

	const segment = 64
	plain := engine.New(in.Model, in.Tokenizer, engine.Options{Clock: benchClock})
	var sum [2]time.Duration
	for range b.N {
		r := engine.Request{Prompt: prompt, Params: params(0, 1, len(answer)), Forced: answer, Fresh: true}
		r.Params.IgnoreEOS = true
		ways := [2]*pacer{newPacer(b, plain, r)}
		r.Drafter = in.Drafter
		ways[1] = newPacer(b, in.Engine, r)
		ways[0].to(b, 1)
		ways[1].to(b, 1)
		for s := 0; s*segment < len(answer); s++ {
			for j := range 2 {
				way := (j + s) % 2
				sum[way] += ways[way].to(b, min(1+segment*(s+1), len(answer)))
			}
		}
		require.Equal(b, ways[0].drawn, ways[1].drawn)
	}
	t := in.Counters.Tally(drafter.Lookup)
	b.ReportMetric(sum[0].Seconds()/sum[1].Seconds(), "x-plain")
	b.ReportMetric(t.MeanAcceptanceLength(), "acceptance-length")
	b.ReportMetric(float64(sum[0].Nanoseconds())/float64(len(answer)*b.N), "ns/token-plain")
	b.Logf("%d tokens, widths %v", len(answer), t.Widths)
}

func tokensOf(t testing.TB, in *engine.Instance, text string) []int32 {
	t.Helper()
	ids, err := in.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
	require.NoError(t, err)
	return ids
}
