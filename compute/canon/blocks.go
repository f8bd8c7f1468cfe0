package canon

import (
	"encoding/binary"

	"surmise/checkpoint"
)

// Block is 32 quantized weights of one row with what they are multiplied by:
// w = Scale·Sub[half]·Q − Min·MinSub.
type Block struct {
	Q      [BlockSize]int16
	Sub    [2]int32 // integer scale of each half of 16 (1 where there is none)
	MinSub int32    // integer scale of the minimum
	Scale  float32  // ws
	Min    float32  // wmin
	HasMin bool     // the format has minima
}

// Blocks unpacks row i of a quantized matrix to blocks of 32.
func Blocks(t *checkpoint.Tensor, i int) []Block {
	out := make([]Block, t.Cols()/BlockSize)
	if t.Type == checkpoint.MLX4 || t.Type == checkpoint.MLX8 {
		mlxBlocks(out, t, i)
		return out
	}
	unpack(out, t.Type, t.RowBytes(i))
	return out
}

func unpack(out []Block, typ checkpoint.Type, row []byte) {
	for b := range out {
		out[b].Sub = [2]int32{1, 1}
	}
	size, n := typ.BlockBytes(), typ.BlockSize()/BlockSize
	for b := 0; b < len(out); b += n {
		src := row[b/n*size:][:size]
		switch typ {
		case checkpoint.Q8_0:
			out[b].q8(src)
		case checkpoint.Q4_0:
			out[b].nibbles(src[2:], nil, 8)
		case checkpoint.Q4_1:
			out[b].nibbles(src[4:], nil, 0)
		case checkpoint.Q5_0:
			out[b].nibbles(src[6:], src[2:6], 16)
		case checkpoint.Q5_1:
			out[b].nibbles(src[8:], src[4:8], 0)
		case checkpoint.Q4_K:
			unpackK(out[b:b+8], src[:16], nil, src[16:])
		case checkpoint.Q5_K:
			unpackK(out[b:b+8], src[:16], src[16:48], src[48:])
		case checkpoint.Q6_K:
			unpackQ6K(out[b:b+8], src)
		}
		if n == 1 {
			out[b].Scale = half(src)
			if typ == checkpoint.Q4_1 || typ == checkpoint.Q5_1 {
				out[b].HasMin, out[b].MinSub, out[b].Min = true, 1, -half(src[2:])
			}
		}
	}
}

func half(b []byte) float32 { return F16(binary.LittleEndian.Uint16(b)) }

func (b *Block) q8(src []byte) {
	for j := range b.Q {
		b.Q[j] = int16(int8(src[2+j]))
	}
}

// nibbles reads 32 values: low nibbles, then high ones, with their fifth bits.
func (b *Block) nibbles(qs, high []byte, offset int16) {
	var h uint32
	if high != nil {
		h = binary.LittleEndian.Uint32(high)
	}
	for j := range 16 {
		b.Q[j] = int16(qs[j]&15) | int16(h>>j&1)<<4
		b.Q[j+16] = int16(qs[j]>>4) | int16(h>>(j+16)&1)<<4
	}
	for j := range b.Q {
		b.Q[j] -= offset
	}
}

// unpackK unpacks a super-block of Q4_K or Q5_K (with fifth bits high).
func unpackK(out []Block, head, high, qs []byte) {
	d, dmin := half(head), half(head[2:])
	sc := head[4:16]
	for i := range out {
		o := &out[i]
		var scale, minimum byte
		if i < 4 {
			scale, minimum = sc[i]&63, sc[i+4]&63
		} else {
			scale = sc[i+4]&15 | sc[i-4]>>6<<4
			minimum = sc[i+4]>>4 | sc[i]>>6<<4
		}
		o.Sub = [2]int32{int32(scale), int32(scale)}
		o.HasMin, o.MinSub = true, int32(minimum)
		o.Scale, o.Min = d, dmin
		for j := range o.Q {
			q := int16(qs[i/2*32+j] >> (4 * (i % 2)) & 15)
			if high != nil {
				q |= int16(high[j]>>i&1) << 4
			}
			o.Q[j] = q
		}
	}
}

func unpackQ6K(out []Block, src []byte) {
	low, high, sc, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for i := range out {
		o, half, quarter := &out[i], i/4, i%4
		o.Scale = d
		o.Sub = [2]int32{int32(int8(sc[2*i])), int32(int8(sc[2*i+1]))}
		for j := range o.Q {
			l := low[64*half+32*(quarter%2)+j] >> (4 * (quarter / 2)) & 15
			h := high[32*half+j] >> (2 * quarter) & 3
			o.Q[j] = int16(l|h<<4) - 32
		}
	}
}

func mlxBlocks(out []Block, t *checkpoint.Tensor, i int) {
	groups := t.Cols() / t.Group
	scales, biases := make([]float32, groups), make([]float32, groups)
	t.Scales.Float32Row(i, scales)
	t.Biases.Float32Row(i, biases)
	row := t.RowBytes(i)
	for b := range out {
		o, g := &out[b], b*BlockSize/t.Group
		o.Sub = [2]int32{1, 1}
		o.Scale, o.Min, o.MinSub, o.HasMin = scales[g], -biases[g], 1, true
		for j := range o.Q {
			if e := b*BlockSize + j; t.Type == checkpoint.MLX8 {
				o.Q[j] = int16(row[e])
			} else {
				o.Q[j] = int16(row[e/2] >> (4 * (e % 2)) & 15)
			}
		}
	}
}
