package cpu

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
)

// BenchmarkLoad times repacking, in checkpoint bytes per second.
func BenchmarkLoad(b *testing.B) {
	for _, typ := range []checkpoint.Type{
		checkpoint.BF16, checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q5_0, checkpoint.Q4_K, checkpoint.Q6_K,
	} {
		b.Run(typ.String(), func(b *testing.B) {
			w := randomTensor(b, rand.New(rand.NewPCG(1, 2)), typ, 4096, 2048)
			b.SetBytes(w.Size())
			for b.Loop() {
				b.StopTimer()
				dev, err := New(Options{})
				require.NoError(b, err)
				b.StartTimer()
				_, err = dev.LoadLinear(compute.LinearPart{Weight: w})
				require.NoError(b, err)
				b.StopTimer()
				require.NoError(b, dev.Close())
				b.StartTimer()
			}
		})
	}
}

// Given pages that are copied or filled, each element moves, and only there.
func TestPagesAreCopiedAndFilled(t *testing.T) {
	for _, typ := range []compute.KVType{compute.KVF16, compute.KVF32} {
		k, err := newKV(compute.KVSpec{Layers: 2, Heads: 3, HeadDim: 8, Pages: 3, Type: typ})
		require.NoError(t, err)
		k.FillPage(1, 2)
		k.CopyPage(0, 1)
		k.FillPage(1, 3)
		at := func(i int) float32 {
			if k.half != nil {
				return halfToFloat(k.half[i])
			}
			return k.float[i]
		}
		for i := range 3 * k.pageElems {
			require.Equal(t, []float32{2, 3, 0}[i/k.pageElems], at(i))
		}
		require.NoError(t, k.Close())
		require.NoError(t, k.Close(), "closing twice is fine")
	}
}

// Given requests of any size, an arena's memory is zero, aligned and nobody else's.
func TestArenaHandsOutDistinctMemory(t *testing.T) {
	var a arenas
	defer func() { require.NoError(t, a.close()) }()
	r := rand.New(rand.NewPCG(3, 4))
	var given [][]byte
	for i := range 40 {
		n := r.IntN(1 << r.IntN(27))
		mem, err := a.alloc(n)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(mem), n)
		if len(mem) == 0 {
			continue
		}
		require.Zero(t, mem[0])
		require.Zero(t, mem[len(mem)-1])
		mem[0], mem[len(mem)-1] = byte(i+1), byte(i+1)
		given = append(given, mem)
	}
	for i := 1; i < len(given); i++ {
		require.NotEqual(t, given[i-1][0], given[i][0])
		require.Equal(t, given[i][0], given[i][len(given[i])-1])
	}
	_, err := newMapping(-1)
	require.Error(t, err)
}

func TestISAFromEnv(t *testing.T) {
	for _, text := range []string{"generic", "Generic", " GENERIC "} {
		t.Setenv("SURMISE_CPU", text)
		require.Equal(t, "generic", ISAFromEnv())
	}
}

func TestAnInstructionSetThatIsNotThereIsNamedWithThoseThatAre(t *testing.T) {
	for _, name := range []string{"sse", "mmx"} {
		_, err := New(Options{ISA: name})
		require.ErrorContains(t, err, `"`+name+`" (SURMISE_CPU): want one that this processor has, `)
		for _, i := range implementations() {
			require.Equal(t, i.available, strings.Contains(err.Error(), i.name), i.name)
		}
	}
}
