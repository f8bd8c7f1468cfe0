package checkpoint

import (
	"strings"
	"testing"
	"testing/fstest"
)

// Each target demands the package's invariant: an error, or a checkpoint whose
// every row can be read.

func FuzzGGUF(f *testing.F) {
	md := tinyGGUFMetadata("llama")
	for key := range md { // short seeds keep the fuzzer fast
		if strings.HasPrefix(key, "tokenizer.") {
			delete(md, key)
		}
	}
	f.Add(ggufBytes(f, md, []Output{floats("output_norm.weight", F32, tinyHidden)}))
	f.Add(ggufBytes(f, map[string]any{"general.architecture": "x", "a": []string{"b", "c"}, "d": []float32{1}}, []Output{floats("w", Q4_0, 2, 32)}))
	f.Add(newRawGGUF(1, 1).str("k").u32(9).u32(9).u64(1).b)
	f.Fuzz(func(_ *testing.T, data []byte) {
		if parsed, err := parseGGUF(&mapping{data: data}); err == nil {
			readAll(&Checkpoint{tensors: parsed.tensors})
		}
		if c, err := openGGUF("x", &mapping{data: data}); err == nil {
			readAll(c)
		}
	})
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safetensorsBytes(f, floats("a", F32, 3, 2), floats("b.weight", F16, 4)))
	f.Add(rawSafetensors(`{"a.weight":{"dtype":"U32","shape":[2,4],"data_offsets":[0,32]},"a.scales":{"dtype":"F16","shape":[2,1],"data_offsets":[32,36]},"a.biases":{"dtype":"F16","shape":[2,1],"data_offsets":[36,40]}}`, 40))
	quant := quantizationConfig{present: true, base: quantization{32, 4}}
	f.Fuzz(func(_ *testing.T, data []byte) {
		arrays, _, err := parseSafetensors(&mapping{data: data})
		if err != nil {
			return
		}
		if tensors, _, err := assemble(arrays, quant); err == nil {
			readAll(&Checkpoint{tensors: tensors})
		}
	})
}

func FuzzConfig(f *testing.F) {
	for modelType := range families {
		f.Add(toJSON(f, tinyConfig(modelType, nil)), []byte(`{"eos_token_id":[1,2]}`), []byte(`{"weight_map":{"a":"b"}}`))
	}
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"rope_parameters":{"full_attention":{}}},"quantization":{"group_size":32,"bits":4}}`), []byte(`{}`), []byte(`{}`))
	weights := safetensorsBytes(f, floats("mtp.fc.weight", F16, 2, 2))
	f.Fuzz(func(_ *testing.T, config, generation, index []byte) {
		for _, files := range []fstest.MapFS{
			{"config.json": {Data: config}, "generation_config.json": {Data: generation}, "model.safetensors": {Data: weights}},
			{"config.json": {Data: config}, indexName: {Data: index}, "b": {Data: weights}},
		} {
			if c, err := OpenFS(files, "."); err == nil {
				readAll(c)
			}
		}
	})
}
