package compute

import (
	"fmt"

	"surmise/checkpoint"
)

// StoredType is the type a part is kept in: its own, or what float weights are
// converted to. Rows that do not fill blocks of 32 stay floats.
func (p LinearPart) StoredType() checkpoint.Type {
	if p.Weight.Type.Float() && p.Quantize != checkpoint.F32 && p.Weight.Cols()%32 == 0 {
		return p.Quantize
	}
	return p.Weight.Type
}

func checkPart(p LinearPart) error {
	w := p.Weight
	switch p.Quantize {
	case checkpoint.F32, checkpoint.Q8_0, checkpoint.Q4_0:
	default:
		return fmt.Errorf("cannot convert to %s: want q8_0, q4_0 or f32 (keep)", p.Quantize)
	}
	typ := p.StoredType()
	switch typ {
	case checkpoint.F32, checkpoint.F16, checkpoint.BF16:
	case checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q4_1, checkpoint.Q5_0, checkpoint.Q5_1:
		if w.Cols()%32 != 0 {
			return fmt.Errorf("%d columns do not fill blocks of 32 of %s", w.Cols(), typ)
		}
	case checkpoint.Q4_K, checkpoint.Q5_K, checkpoint.Q6_K:
		if w.Cols()%256 != 0 {
			return fmt.Errorf("%d columns do not fill blocks of 256 of %s", w.Cols(), typ)
		}
	case checkpoint.MLX4, checkpoint.MLX8:
		if w.Group <= 0 || w.Group%32 != 0 || w.Cols()%w.Group != 0 {
			return fmt.Errorf("groups of %d in %d columns of %s: want a multiple of 32 that divides the columns", w.Group, w.Cols(), typ)
		}
		if w.Scales == nil || w.Biases == nil {
			return fmt.Errorf("%s without scales and biases", typ)
		}
		for _, t := range []*checkpoint.Tensor{w.Scales, w.Biases} {
			if !t.Type.Float() || t.Rows() != w.Rows() || t.Cols() != w.Cols()/w.Group {
				return fmt.Errorf("%s is %s %v, want floats [%d, %d]", t.Name, t.Type, t.Shape, w.Rows(), w.Cols()/w.Group)
			}
		}
	default:
		return fmt.Errorf("weights of type %s are not supported", typ)
	}
	if b := p.Bias; b != nil {
		if !b.Type.Float() || b.Rows()*b.Cols() != w.Rows() || b.Rows() != 1 {
			return fmt.Errorf("bias %s is %s %v, want %d floats", b.Name, b.Type, b.Shape, w.Rows())
		}
	}
	if p.Row != nil {
		return checkPermutation(p.Row, w.Rows())
	}
	return nil
}

func checkPermutation(row func(int) int, n int) error {
	seen := make([]bool, n)
	for i := range n {
		j := row(i)
		if j < 0 || j >= n || seen[j] {
			return fmt.Errorf("row order is no permutation: row %d is taken from %d of %d", i, j, n)
		}
		seen[j] = true
	}
	return nil
}

// CheckKVSpec checks the numbers of a page store.
func CheckKVSpec(s KVSpec) error {
	const limit = 1 << 40 // bytes of address space
	bytes := int64(1)
	for _, f := range []struct {
		name string
		n    int
	}{{"layers", s.Layers}, {"heads", s.Heads}, {"head dimension", s.HeadDim}, {"pages", s.Pages}} {
		if f.n <= 0 {
			return fmt.Errorf("kv store: %s is %d, want at least 1", f.name, f.n)
		}
		if int64(f.n) > limit/bytes {
			return fmt.Errorf("kv store: %d layers × %d heads × %d × %d pages exceed %d bytes", s.Layers, s.Heads, s.HeadDim, s.Pages, int64(limit))
		}
		bytes *= int64(f.n)
	}
	if bytes > limit/(2*PageSize*4) {
		return fmt.Errorf("kv store: %d layers × %d heads × %d × %d pages exceed %d bytes", s.Layers, s.Heads, s.HeadDim, s.Pages, int64(limit))
	}
	if s.Pages > 1<<31/PageSize-1 {
		return fmt.Errorf("kv store: %d pages: slots would not fit 32 bits", s.Pages)
	}
	if s.Type != KVF16 && s.Type != KVF32 {
		return fmt.Errorf("kv store: no such type: %d", s.Type)
	}
	return nil
}
