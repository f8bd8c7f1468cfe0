package canon

import "math"

// ChunkSize is the number of positions of one attention chunk; chunks begin at
// absolute multiples of it.
const ChunkSize = 256

// Attend writes softmax(scale·q·Kᵀ)·V over the positions lo ≤ j < hi to out;
// out and q are one head. key and value give the cache's vectors of a position
// (a result need not outlive the next call). lo < hi.
//
// In each chunk, positions ascending: s_j by an fma chain over d, m_c = max s_j,
// e_j = Exp(s_j − m_c), l_c = 16 partial sums by j mod 16, folded,
// o_c[d] = fma(e_j, v_j[d], o_c[d]). Over chunks ascending: m = max m_c,
// w_c = Exp(m_c − m), l = fma(w_c, l_c, l), o[d] = fma(w_c, o_c[d], o[d]).
// The result is o[d]·(1/l); −0 is +0.
func Attend(out, q []float32, scale float32, lo, hi int, key, value func(j int) []float32) {
	qs := make([]float32, len(q))
	for d, v := range q {
		qs[d] = float32(v * scale)
	}
	var chunks []chunk
	m := float32(math.Inf(-1))
	for c := lo / ChunkSize * ChunkSize; c < hi; c += ChunkSize {
		ch := attendChunk(qs, max(lo, c), min(hi, c+ChunkSize), key, value)
		m = max(m, ch.m)
		chunks = append(chunks, ch)
	}
	var l float32
	o := make([]float32, len(q))
	for _, ch := range chunks {
		w := Exp(ch.m - m)
		l = FMA(w, ch.l, l)
		for d := range o {
			o[d] = FMA(w, ch.o[d], o[d])
		}
	}
	r := 1 / l
	for d := range o {
		out[d] = float32(o[d]*r) + 0
	}
}

// chunk is what attention over one chunk hands on: the greatest score, the sum
// of the weights and the weighted sum of the values.
type chunk struct {
	m, l float32
	o    []float32
}

func attendChunk(qs []float32, from, to int, key, value func(j int) []float32) chunk {
	s := make([]float32, to-from)
	m := float32(math.Inf(-1))
	for j := from; j < to; j++ {
		var acc float32
		for d, v := range key(j) {
			acc = FMA(v, qs[d], acc)
		}
		s[j-from] = acc
		m = max(m, acc)
	}
	var l [16]float32
	o := make([]float32, len(qs))
	for j := from; j < to; j++ {
		e := Exp(s[j-from] - m)
		l[j%16] += e
		for d, v := range value(j) {
			o[d] = FMA(e, v, o[d])
		}
	}
	return chunk{m: m, l: Fold16(&l), o: o}
}
