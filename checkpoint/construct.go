package checkpoint

import "fmt"

// NewTensor gives a tensor over data that belongs to no file: a converted
// weight, or one a test made. The length of data must be exactly what shape and
// type say. MLX types need [NewMLXTensor].
func NewTensor(name string, typ Type, shape []int, data []byte) (*Tensor, error) {
	if typ >= numTypes || typ == MLX4 || typ == MLX8 {
		return nil, fmt.Errorf("tensor %s: type %s cannot be made from data alone", name, typ)
	}
	t, err := newTensor(name, typ, shape, data, nil)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	return t, nil
}

// NewMLXTensor gives an MLX4 or MLX8 tensor over data that belongs to no file,
// with its scales and biases, each of shape [rows, cols/group].
func NewMLXTensor(name string, typ Type, shape []int, data []byte, scales, biases *Tensor, group int) (*Tensor, error) {
	if typ != MLX4 && typ != MLX8 {
		return nil, fmt.Errorf("tensor %s: type %s is not an MLX type", name, typ)
	}
	t, err := newTensor(name, typ, shape, data, nil)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	if group < 1 || t.cols%group != 0 {
		return nil, fmt.Errorf("tensor %s: groups of %d do not divide %d columns", name, group, t.cols)
	}
	for _, p := range []*Tensor{scales, biases} {
		if p == nil || !p.Type.Float() || p.rows != t.rows || p.cols != t.cols/group {
			return nil, fmt.Errorf("tensor %s: scales and biases must be floats of shape [%d, %d]", name, t.rows, t.cols/group)
		}
	}
	t.Scales, t.Biases, t.Group = scales, biases, group
	return t, nil
}
