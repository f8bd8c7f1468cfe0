//go:build !purego

package cpu

import "surmise/checkpoint"

//go:generate go run -C _asm ./pack -pkg cpu -out ../pack_amd64.s -stubs ../pack_stubs_amd64.go

// packASM packs some blocks, or super-blocks, of 8 rows.
type packASM func(weights, scales, subs *byte, rows *[8]*byte, blocks int)

// archPacks are the loops of the tables that have AVX2.
func archPacks(name string) [len(packings)]packGroup {
	var packs [len(packings)]packGroup
	if name != "avx2" && name != "avx512" {
		return packs
	}
	for typ, f := range map[checkpoint.Type]packASM{
		checkpoint.Q8_0: packQ8AVX2, checkpoint.Q4_0: packQ4AVX2, checkpoint.Q4_1: packQ4MinAVX2,
		checkpoint.Q5_0: packQ5AVX2, checkpoint.Q5_1: packQ5MinAVX2, checkpoint.Q4_K: packQ4KAVX2,
		checkpoint.Q5_K: packQ5KAVX2, checkpoint.Q6_K: packQ6KAVX2,
	} {
		packs[typ] = f.group(typ)
	}
	return packs
}

// group packs a whole group, after checking lengths: the assembly does not.
func (f packASM) group(typ checkpoint.Type) packGroup {
	size := typ.BlockBytes()
	return func(weights, scales []byte, rows *[groupRows][]byte, cols int) {
		blocks := cols / typ.BlockSize()
		wantWeights, wantScales := packings[typ].groupBytes(cols)
		_, _ = weights[wantWeights-1], scales[wantScales-1]
		for i := range 2 {
			var p [8]*byte
			for o := range p {
				row := rows[8*i+o]
				_ = row[blocks*size-1]
				p[o] = &row[0]
			}
			// What belongs to the last 8 rows is behind that of the first: 32 bytes
			// of a line of weights, 16 of scales in f16, 8 of those in bytes.
			f(&weights[i*lineBytes/2], &scales[16*i], &scales[8*i], &p, blocks)
		}
	}
}
