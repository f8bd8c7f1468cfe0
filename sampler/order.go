package sampler

import (
	"math"
	"slices"
)

// A token's rank is decided by its key: the logit's order in the high half, the
// complement of the id in the low one. A larger key is a larger logit, or an
// equal logit with a lower id. Filters keep a prefix of the descending keys.
type key = uint64

func keyOf(z float32, id int32) key {
	return uint64(orderOf(z))<<32 | uint64(^uint32(id))
}

// orderOf maps float32 to uint32 monotonically, −0 to the place of +0.
func orderOf(z float32) uint32 {
	b := math.Float32bits(z + 0)
	if b>>31 == 1 {
		return ^b
	}
	return b | 1<<31
}

// logitOf and idOf are the inverses of keyOf.
func logitOf(k key) float32 {
	o := uint32(k >> 32)
	if o>>31 == 1 {
		return math.Float32frombits(o &^ (1 << 31))
	}
	return math.Float32frombits(^o)
}

func idOf(k key) int32 { return int32(^uint32(k)) }

// selectLargest reorders a so that a[n] is the element that a descending sort
// would put there, everything before it is not smaller, and everything behind
// it is not larger. It is linear on average and n·log n at worst.
func selectLargest(a []uint64, n int) uint64 {
	lo, hi := 0, len(a)-1
	for depth := 0; lo < hi; depth++ {
		if depth > 64 || hi-lo < 12 {
			slices.Sort(a[lo : hi+1])
			slices.Reverse(a[lo : hi+1])
			break
		}
		p := median(a[lo], a[lo+(hi-lo)/2], a[hi])
		i, j := lo, hi
		for i <= j {
			for a[i] > p {
				i++
			}
			for a[j] < p {
				j--
			}
			if i <= j {
				a[i], a[j] = a[j], a[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j
		case n >= i:
			lo = i
		default:
			return a[n]
		}
	}
	return a[n]
}

func median(a, b, c uint64) uint64 {
	if a > b {
		a, b = b, a
	}
	return max(a, min(b, c))
}
