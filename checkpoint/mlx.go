package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A quantization says how MLX packed a matrix: groups of size weights share a
// scale and a bias, each weight has bits bits.
type quantization struct{ size, bits int }

// A quantizationConfig is the object "quantization" of config.json: one scheme
// for all modules, and others for modules by path.
type quantizationConfig struct {
	present bool
	base    quantization
	modules map[string]quantization
}

// parseQuantization reads MLX's scheme from config.json, and refuses the schemes
// of other libraries, whose tensors would be misread.
func parseQuantization(raw []byte) (quantizationConfig, error) {
	q := quantizationConfig{modules: map[string]quantization{}}
	var config struct {
		MLX   json.RawMessage `json:"quantization"`
		Other struct {
			Method string `json:"quant_method"`
		} `json:"quantization_config"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return q, jsonProblem(err)
	}
	if config.Other.Method != "" {
		return q, fmt.Errorf("quantization_config.quant_method is %q; supported is only MLX's affine quantization", config.Other.Method)
	}
	if len(config.MLX) == 0 || string(config.MLX) == "null" {
		return q, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(config.MLX, &members); err != nil {
		return q, fmt.Errorf("quantization: expected an object: %w", err)
	}
	var err error
	q.present = true
	if q.base, err = parseScheme("quantization", config.MLX); err != nil {
		return q, err
	}
	for name, value := range members {
		if len(value) == 0 || value[0] != '{' { // the base's fields, or false for a module left alone
			continue
		}
		if q.modules[name], err = parseScheme("quantization."+name, value); err != nil {
			return q, err
		}
	}
	return q, nil
}

func parseScheme(what string, raw json.RawMessage) (quantization, error) {
	var s struct {
		Size int    `json:"group_size"`
		Bits int    `json:"bits"`
		Mode string `json:"mode"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return quantization{}, fmt.Errorf("%s: %w", what, err)
	}
	if s.Mode != "" && s.Mode != "affine" {
		return quantization{}, fmt.Errorf("%s.mode is %q, supported is \"affine\"", what, s.Mode)
	}
	if s.Bits != 4 && s.Bits != 8 {
		return quantization{}, fmt.Errorf("%s.bits is %d, supported are 4 and 8", what, s.Bits)
	}
	if s.Size < 8 || s.Size > 1<<16 || s.Size%8 != 0 {
		return quantization{}, fmt.Errorf("%s.group_size is %d, expected a multiple of 8 such as 32, 64 or 128", what, s.Size)
	}
	return quantization{s.Size, s.Bits}, nil
}

// floatTypes are the dtypes that become tensors as they are.
var floatTypes = map[string]Type{"F32": F32, "F16": F16, "BF16": BF16}

// assemble turns stored arrays into tensors: floats as they are, and X.weight
// (U32) with X.scales and X.biases into one MLX tensor. Arrays of other types
// are refused, with the reason, and matter only to those who ask for them.
func assemble(arrays map[string]*storedArray, q quantizationConfig) (tensors map[string]*Tensor, refused map[string]string, err error) {
	tensors, refused = make(map[string]*Tensor), make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		a := arrays[name]
		if typ, ok := floatTypes[a.dtype]; ok {
			t, err := newTensor(name, typ, a.shape, a.data, a.source)
			if err != nil {
				return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
			}
			tensors[name] = t
		} else {
			refused[name] = fmt.Sprintf("has dtype %s; readable are F32, F16, BF16, and U32 packed by MLX", a.dtype)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		module, isWeight := strings.CutSuffix(name, ".weight")
		if !isWeight || arrays[name].dtype != "U32" {
			continue
		}
		scales, biases := tensors[module+".scales"], tensors[module+".biases"]
		if !q.present || scales == nil || biases == nil {
			refused[name] = "has dtype U32, which is read only as MLX quantization: with \"quantization\" in config.json, and float .scales and .biases beside it"
			continue
		}
		scheme, ok := q.modules[module]
		if !ok {
			scheme = q.base
		}
		t, err := mlxTensor(arrays[name], scales, biases, scheme)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		delete(refused, name)
		delete(tensors, scales.Name)
		delete(tensors, biases.Name)
		tensors[name] = t
	}
	return tensors, refused, nil
}

// mlxTensor joins packed words with their scales and biases.
func mlxTensor(a *storedArray, scales, biases *Tensor, q quantization) (*Tensor, error) {
	if len(a.shape) < 2 {
		return nil, fmt.Errorf("is packed with shape %v, expected a matrix", a.shape)
	}
	typ := MLX4
	if q.bits == 8 {
		typ = MLX8
	}
	last := len(a.shape) - 1
	shape := slices.Clone(a.shape)
	if shape[last] > math.MaxInt32 { // rows may be 0, so the file's size bounds nothing
		return nil, fmt.Errorf("has rows of %d words", shape[last])
	}
	shape[last] *= typ.BlockSize()
	t, err := newTensor(a.name, typ, shape, a.data, a.source)
	if err != nil {
		return nil, err
	}
	groups := slices.Clone(shape)
	groups[last] /= q.size
	if shape[last]%q.size != 0 || !slices.Equal(scales.Shape, groups) || !slices.Equal(biases.Shape, groups) {
		return nil, fmt.Errorf("words of shape %v with %d bits and group size %d need scales and biases of shape %v, found %v and %v",
			a.shape, q.bits, q.size, groups, scales.Shape, biases.Shape)
	}
	t.Scales, t.Biases, t.Group = scales, biases, q.size
	return t, nil
}
