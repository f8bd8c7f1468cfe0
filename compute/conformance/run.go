package conformance

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute"
	"surmise/compute/canon"
)

// Open gives a device with so many threads. A device that has no threads
// ignores the number.
type Open func(threads int) compute.Device

// Run runs the whole suite. It takes some ten seconds with plain Go kernels.
func Run(t *testing.T, open Open) {
	s := &suite{oracle: canon.New()}
	for _, n := range []int{1, 2, 3, 7} {
		d := open(n)
		require.NotNil(t, d)
		defer func() { require.NoError(t, d.Close()) }()
		s.devices = append(s.devices, d)
	}
	for _, c := range []struct {
		name string
		prop func(*rapid.T)
	}{
		{"linear", s.linear},
		{"rows", s.rowOperations},
		{"operations in any order", s.soup},
		{"attention", s.attention},
		{"a decoder layer", s.layer},
		{"tables", s.table},
	} {
		t.Run(c.name, func(t *testing.T) { rapid.Check(t, c.prop) })
	}
	t.Run("bad programs", s.badPrograms)
	t.Run("extreme numbers", s.extremes)
}

type suite struct {
	oracle  compute.Device
	devices []compute.Device
}

// scenario runs a fixed piece of work on a device and hands every value that
// must agree to out. It must do the same for every device.
type scenario func(d compute.Device, out func(name string, v []float32)) error

// result is one named output.
type result struct {
	name   string
	values []float32
}

func collect(d compute.Device, s scenario) ([]result, error) {
	var res []result
	err := s(d, func(name string, v []float32) {
		res = append(res, result{name, append([]float32(nil), v...)})
	})
	return res, err
}

// compare runs the scenario on the oracle and on one of the devices.
func (s *suite) compare(t *rapid.T, sc scenario) {
	d := s.devices[rapid.IntRange(0, len(s.devices)-1).Draw(t, "device")]
	want, err := collect(s.oracle, sc)
	if err != nil {
		t.Fatalf("canon: %v", err)
	}
	got, err := collect(d, sc)
	if err != nil {
		t.Fatalf("%s: %v", d.Name(), err)
	}
	if err := sameResults(want, got); err != nil {
		t.Fatalf("%s: %v", d.Name(), err)
	}
}

func sameResults(want, got []result) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d outputs, want %d", len(got), len(want))
	}
	for i := range want {
		if err := sameBits(want[i].values, got[i].values); err != nil {
			return fmt.Errorf("%s: %w", want[i].name, err)
		}
	}
	return nil
}

func sameBits(want, got []float32) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if math.Float32bits(w) != math.Float32bits(g) && (w == w || g == g) {
			return fmt.Errorf("value %d of %d is %g (%08x), the canon's is %g (%08x)",
				i, len(want), g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
	return nil
}

// asFloats lets integers be compared as outputs.
func asFloats(v []int32) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

// alloc makes a buffer with the given contents.
func alloc(d compute.Device, v []float32) (compute.Buffer, error) {
	b, err := d.Alloc(len(v))
	if err == nil {
		copy(b.Host(), v)
	}
	return b, err
}
