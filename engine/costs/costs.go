package costs

import (
	"time"

	"surmise/compute"
	"surmise/model"
)

// Table is what forwards were measured to take, with logits for all their rows.
type Table struct {
	// Context is how many positions were cached before each forward.
	Context int
	// Forward is the median by number of rows.
	Forward map[int]time.Duration
	// Limits are the medians of what the device could do meanwhile; zero where
	// it cannot tell.
	Limits compute.Limits
	// Roofline is what Limits allow at least by number of rows; empty without
	// Limits.
	Roofline map[int]time.Duration
}

// Work is what one forward has to do.
type Work struct {
	Bytes       int64 // of weights and of cached keys and values, each read once
	Int8MACs    int64
	Float32MACs int64 // of attention, and of weights that are floats
}

// WorkOf counts the work of a forward of so many rows of one sequence, behind
// so many cached positions.
func WorkOf(s model.Spec, context, rows int) Work {
	w := Work{Bytes: s.Bytes, Int8MACs: int64(rows) * (s.MACs - s.FloatMACs), Float32MACs: int64(rows) * s.FloatMACs}
	for _, window := range s.Windows {
		seen := func(positions int) int64 {
			if window > 0 {
				positions = min(positions, window)
			}
			return int64(positions)
		}
		w.Bytes += 2 * seen(context+rows) * int64(s.KVHeads) * int64(s.HeadDim) * int64(s.KV.Bytes())
		for r := range rows {
			w.Float32MACs += 2 * seen(context+r+1) * int64(s.Heads) * int64(s.HeadDim)
		}
	}
	return w
}

// roofline fills Roofline.
func (t *Table) roofline(s model.Spec) {
	if t.Limits == (compute.Limits{}) {
		return
	}
	t.Roofline = make(map[int]time.Duration, len(t.Forward))
	for rows := range t.Forward {
		w := WorkOf(s, t.Context, rows)
		t.Roofline[rows] = t.Limits.Roofline(w.Bytes, w.Int8MACs, w.Float32MACs)
	}
}
