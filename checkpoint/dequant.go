package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Float32Row writes row i to dst, whose length must be Cols. It is the
// reference meaning of every type: floats are widened exactly, quantized
// weights follow the formulas at the [Type] constants with every operation
// rounded to float32. (In the ggml types every product is exact in float32, so
// at most the one addition of a minimum rounds, whatever the order.)
//
// It panics when i or the length of dst is out of range, as indexing does.
func (t *Tensor) Float32Row(i int, dst []float32) {
	if len(dst) != t.cols {
		panic(fmt.Sprintf("checkpoint: Float32Row of %s: dst has %d elements, a row has %d", t.Name, len(dst), t.cols))
	}
	src := t.RowBytes(i)
	switch t.Type {
	case F32:
		for j := range dst {
			dst[j] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*j:]))
		}
	case F16:
		for j := range dst {
			dst[j] = f16(src[2*j:])
		}
	case BF16:
		for j := range dst {
			dst[j] = bf16(src[2*j:])
		}
	case MLX4, MLX8:
		t.mlxRow(i, src, dst)
	default:
		decode := blockDecoders[t.Type]
		size, bytes := t.Type.BlockSize(), t.Type.BlockBytes()
		for b := 0; b*size < len(dst); b++ {
			decode(src[b*bytes:(b+1)*bytes], dst[b*size:(b+1)*size])
		}
	}
}

// blockDecoders hold the formulas of the ggml types, one block at a time.
var blockDecoders = [numTypes]func(src []byte, dst []float32){
	Q8_0: decodeQ8_0, Q4_0: decodeQ4_0, Q4_1: decodeQ4_1, Q5_0: decodeQ5_0, Q5_1: decodeQ5_1,
	Q4_K: decodeQ4_K, Q5_K: decodeQ5_K, Q6_K: decodeQ6_K,
}

func decodeQ8_0(src []byte, dst []float32) {
	d := f16(src)
	for j, q := range src[2:34] {
		dst[j] = d * float32(int8(q))
	}
}

func decodeQ4_0(src []byte, dst []float32) {
	d := f16(src)
	for j, q := range src[2:18] {
		dst[j] = d * float32(int(q&15)-8)
		dst[j+16] = d * float32(int(q>>4)-8)
	}
}

func decodeQ4_1(src []byte, dst []float32) {
	d, m := f16(src), f16(src[2:])
	for j, q := range src[4:20] {
		dst[j] = float32(d*float32(q&15)) + m
		dst[j+16] = float32(d*float32(q>>4)) + m
	}
}

func decodeQ5_0(src []byte, dst []float32) {
	d, high := f16(src), binary.LittleEndian.Uint32(src[2:])
	for j, q := range src[6:22] {
		dst[j] = d * float32(int(q&15|fifth(high, j))-16)
		dst[j+16] = d * float32(int(q>>4|fifth(high, j+16))-16)
	}
}

func decodeQ5_1(src []byte, dst []float32) {
	d, m, high := f16(src), f16(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for j, q := range src[8:24] {
		dst[j] = float32(d*float32(q&15|fifth(high, j))) + m
		dst[j+16] = float32(d*float32(q>>4|fifth(high, j+16))) + m
	}
}

// fifth returns bit j of high in the place of a nibble's fifth bit.
func fifth(high uint32, j int) byte { return byte(high>>j&1) << 4 }

// scaleMin unpacks the i-th of eight (6-bit scale, 6-bit minimum) pairs from
// the 12 bytes that Q4_K and Q5_K keep: pairs 0–3 sit in the low six bits of
// bytes 0–3 and 4–7; pairs 4–7 have their low nibbles in bytes 8–11 and their
// upper two bits on top of bytes 0–7.
func scaleMin(packed []byte, i int) (scale, minimum byte) {
	if i < 4 {
		return packed[i] & 63, packed[i+4] & 63
	}
	scale = packed[i+4]&15 | packed[i-4]>>6<<4
	minimum = packed[i+4]>>4 | packed[i]>>6<<4
	return scale, minimum
}

func decodeQ4_K(src []byte, dst []float32) {
	d, dmin := f16(src), f16(src[2:])
	scales, quants := src[4:16], src[16:144]
	for i := range 8 {
		s, m := scaleMin(scales, i)
		scale, minimum := d*float32(s), dmin*float32(m)
		shift := 4 * (i & 1) // two groups share 32 bytes: low nibbles, then high
		for j, q := range quants[32*(i/2) : 32*(i/2)+32] {
			dst[32*i+j] = float32(scale*float32(q>>shift&15)) - minimum
		}
	}
}

func decodeQ5_K(src []byte, dst []float32) {
	d, dmin := f16(src), f16(src[2:])
	scales, high, quants := src[4:16], src[16:48], src[48:176]
	for i := range 8 {
		s, m := scaleMin(scales, i)
		scale, minimum := d*float32(s), dmin*float32(m)
		shift := 4 * (i & 1)
		for j, q := range quants[32*(i/2) : 32*(i/2)+32] {
			q = q>>shift&15 | high[j]>>i&1<<4 // group i's fifth bits are bit i of the 32 high bytes
			dst[32*i+j] = float32(scale*float32(q)) - minimum
		}
	}
}

func decodeQ6_K(src []byte, dst []float32) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], f16(src[208:])
	for i := range 8 { // groups of 32: half i/4, and in it quarter i%4
		half, quarter := i/4, i%4
		lows := low[64*half+32*(quarter&1):]
		highs := high[32*half:]
		for j := range 32 {
			q := lows[j]>>(4*(quarter/2))&15 | highs[j]>>(2*quarter)&3<<4
			scale := d * float32(int8(scales[2*i+j/16]))
			dst[32*i+j] = scale * float32(int(q)-32)
		}
	}
}

// mlxRow decodes row i of a packed MLX matrix: words of little-endian fields,
// lowest bits first, and w = scale·q + bias.
func (t *Tensor) mlxRow(i int, src []byte, dst []float32) {
	groups := t.cols / t.Group
	for g := range groups {
		scale, bias := t.Scales.float(i*groups+g), t.Biases.float(i*groups+g)
		for j := g * t.Group; j < (g+1)*t.Group; j++ {
			q := src[j/2] >> (4 * (j & 1)) & 15
			if t.Type == MLX8 {
				q = src[j]
			}
			dst[j] = float32(scale*float32(q)) + bias
		}
	}
}

// float returns element j of a tensor of a float type, counted over all rows.
func (t *Tensor) float(j int) float32 {
	switch t.Type {
	case F16:
		return f16(t.Data[2*j:])
	case BF16:
		return bf16(t.Data[2*j:])
	default:
		return math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*j:]))
	}
}

func f16(src []byte) float32 { return f16to32(binary.LittleEndian.Uint16(src)) }

func bf16(src []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16)
}

// f16to32 widens a half exactly. Moving the fields into place leaves the
// exponent 112 too small; the multiplication by 2¹¹² mends that, subnormals
// included.
func f16to32(h uint16) float32 {
	bits := uint32(h&0x7fff) << 13
	if h&0x7c00 == 0x7c00 { // infinity or NaN
		bits |= 0x7f800000
	} else {
		bits = math.Float32bits(math.Float32frombits(bits) * 0x1p112)
	}
	return math.Float32frombits(bits | uint32(h&0x8000)<<16)
}
