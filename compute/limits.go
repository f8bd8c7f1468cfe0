package compute

import "time"

// Limits are what a device's hardware can do at most with all its workers: what
// a forward is judged against.
type Limits struct {
	Bandwidth   float64 // bytes of memory read in a second, past all caches
	Int8MACs    float64 // multiply-adds of bytes into 32-bit sums in a second
	Float32MACs float64 // multiply-adds of float32 in a second
}

// Prober is a Device that can measure its limits.
type Prober interface {
	// NewProbe prepares to measure; the probe must be closed before the device.
	NewProbe() (Probe, error)
}

// Probe measures a device's limits, again and again, since they change with
// what else runs on the machine. It must not overlap a Run.
type Probe interface {
	// Measure takes some hundredths of a second. now is the clock.
	Measure(now func() time.Time) (Limits, error)
	// Close gives the probe's memory back.
	Close() error
}

// Roofline is the time that memory and arithmetic need at least, one after the
// other: bytes read, and multiply-adds of either kind.
func (l Limits) Roofline(bytes, int8MACs, float32MACs int64) time.Duration {
	if l.Bandwidth <= 0 || l.Int8MACs <= 0 || l.Float32MACs <= 0 {
		return 0
	}
	s := float64(bytes)/l.Bandwidth + float64(int8MACs)/l.Int8MACs + float64(float32MACs)/l.Float32MACs
	return time.Duration(s * float64(time.Second))
}
