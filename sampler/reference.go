package sampler

import (
	"slices"

	"surmise/compute/vocab"
)

// setFiltersSorted is step 5 by sorting the whole vocabulary: the plain path of
// Reference.Sort.
func (c *Chain) setFiltersSorted(s *scratch, r *row, renormalize bool) {
	p := &c.core.params
	keys := s.collectKeys(r, r.lo())
	slices.Sort(keys)
	slices.Reverse(keys)
	n := len(keys)
	if p.TopK > 0 {
		n = min(n, max(p.TopK, p.MinKeep))
	}
	if p.TopP < 1 {
		of := keys
		if renormalize {
			of = keys[:n]
		}
		var total, mass uint64
		for _, k := range of {
			total += uint64(r.weight(logitOf(k)))
		}
		need, m := max(slack(share(p.TopP, total)), 1), 0
		for m < len(keys) && mass < need {
			mass += uint64(r.weight(logitOf(keys[m])))
			m++
		}
		n = min(n, max(m, p.MinKeep))
	}
	if p.MinP > 0 {
		t, m := atLeast(slack(share(p.MinP, vocab.One))), 1
		for i, k := range keys {
			if uint64(r.weight(logitOf(k))) >= t {
				m = i + 1
			}
		}
		n = min(n, max(m, p.MinKeep))
	}
	if n >= len(keys) {
		return
	}
	r.narrow(r.cutAt(keys[n-1], keys[n:]))
}
