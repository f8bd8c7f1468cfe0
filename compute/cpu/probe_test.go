package cpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/compute"
)

// Every implementation measures limits that are positive and that no machine
// exceeds.
func TestProbeMeasuresLimits(t *testing.T) {
	for _, i := range implementations() {
		if !i.available {
			continue
		}
		t.Run(i.name, func(t *testing.T) {
			d, err := New(Options{Threads: 2, ISA: i.name})
			require.NoError(t, err)
			p, err := d.NewProbe()
			require.NoError(t, err)
			l, err := p.Measure(time.Now)
			require.NoError(t, err)
			for name, v := range map[string]float64{"bandwidth": l.Bandwidth, "int8": l.Int8MACs, "float32": l.Float32MACs} {
				require.Greater(t, v, 1e6, name)
				require.Less(t, v, 1e15, name)
			}
			require.NoError(t, p.Close())
			require.NoError(t, p.Close(), "closing twice is fine")
			_, err = p.Measure(time.Now)
			require.Error(t, err)
			require.NoError(t, d.Close())
			t.Logf("%.1f GB/s, %.0f G int8, %.0f G float32", l.Bandwidth/1e9, l.Int8MACs/1e9, l.Float32MACs/1e9)
		})
	}
}

// A frozen clock divides by no zero.
func TestProbeWithAClockThatStands(t *testing.T) {
	d, err := New(Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	p, err := d.NewProbe()
	require.NoError(t, err)
	defer p.Close()
	l, err := p.Measure(func() time.Time { return time.Time{} })
	require.NoError(t, err)
	require.Greater(t, l.Bandwidth, 0.0)
}

func TestRooflineAddsMemoryAndArithmetic(t *testing.T) {
	l := compute.Limits{Bandwidth: 10, Int8MACs: 20, Float32MACs: 40}
	require.Equal(t, 6*time.Second, l.Roofline(20, 40, 80))
	require.Zero(t, compute.Limits{}.Roofline(1, 1, 1), "unknown limits give no roofline")
}
