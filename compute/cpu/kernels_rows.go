package cpu

import (
	"math"

	"surmise/compute"
	"surmise/compute/canon"
)

// halfToFloat widens a binary16: shifting the fields into place leaves the
// exponent 112 too small, which a multiplication mends, denormals included.
func halfToFloat(h uint16) float32 {
	bits := uint32(h&0x7fff) << 13
	if bits >= 0x0f800000 { // infinity or NaN
		return math.Float32frombits(uint32(h&0x8000)<<16 | bits | 0x7f800000)
	}
	v := math.Float32frombits(bits) * 0x1p112
	return math.Float32frombits(math.Float32bits(v) | uint32(h&0x8000)<<16)
}

func toHalfGeneric(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = canon.ToF16(v)
	}
}

func gateGeneric(dst, g, u []float32, act compute.Activation) {
	switch act {
	case compute.SiLU:
		for i, v := range g {
			dst[i] = float32(canon.SiLU(v) * u[i])
		}
	case compute.GELUTanh:
		for i, v := range g {
			dst[i] = float32(canon.GELUTanh(v) * u[i])
		}
	case compute.Sigmoid:
		for i, v := range g {
			dst[i] = float32(canon.Sigmoid(v) * u[i])
		}
	}
}

func addGeneric(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func scaleGeneric(dst, a []float32, s float32) {
	for i, v := range a {
		dst[i] = float32(s * v)
	}
}
