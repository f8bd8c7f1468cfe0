package checkpoint

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rawGGUF assembles a file without any of the writer's checks.
type rawGGUF struct{ b []byte }

func newRawGGUF(tensors, keys uint64) *rawGGUF {
	return (&rawGGUF{[]byte("GGUF")}).u32(3).u64(tensors).u64(keys)
}

func (r *rawGGUF) u32(v uint32) *rawGGUF { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }

func (r *rawGGUF) u64(v uint64) *rawGGUF { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *rawGGUF) str(s string) *rawGGUF { r.b = append(r.u64(uint64(len(s))).b, s...); return r }
func (r *rawGGUF) bytes(n int) *rawGGUF  { r.b = append(r.b, make([]byte, n)...); return r }

func (r *rawGGUF) info(name string, typ uint32, offset uint64, dims ...uint64) *rawGGUF {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(typ).u64(offset)
}

// data pads to the alignment and appends n bytes of tensors.
func (r *rawGGUF) data(n int) *rawGGUF {
	return r.bytes(int(ggufPadding(int64(len(r.b))))).bytes(n)
}

func TestHostileGGUFFilesAreErrorsThatNameTheCause(t *testing.T) {
	const huge = uint64(1) << 63
	pad := func(r *rawGGUF) []byte { return r.bytes(256).b }
	for name, tc := range map[string]struct {
		data []byte
		want []string
	}{
		"empty":                     {nil, []string{"ends inside the magic"}},
		"another format":            {[]byte("PK\x03\x04 and so on, long enough"), []string{"starts with", "GGUF"}},
		"version 1":                 {append([]byte("GGUF\x01\x00\x00\x00"), make([]byte, 64)...), []string{"version 1", "2 and 3"}},
		"big endian":                {append([]byte("GGUF\x00\x00\x00\x03"), make([]byte, 64)...), []string{"big-endian"}},
		"header cut":                {[]byte("GGUF\x03\x00\x00\x00\x01"), []string{"ends inside the tensor count"}},
		"2^63 tensors":              {pad(newRawGGUF(huge, 0)), []string{"claims 9223372036854775808 tensors"}},
		"2^63 keys":                 {pad(newRawGGUF(0, huge)), []string{"claims 9223372036854775808 metadata keys"}},
		"2^63 dimension":            {pad(newRawGGUF(1, 0).info("w", 0, 0, huge)), []string{`"w"`, "dimension of 9223372036854775808"}},
		"zero dimension":            {pad(newRawGGUF(1, 0).info("w", 0, 0, 4, 0)), []string{`"w"`, "dimension of 0"}},
		"product overflows":         {pad(newRawGGUF(1, 0).info("w", 0, 0, 1<<40, 1<<40)), []string{`"w"`, "overflows"}},
		"product overflows as size": {pad(newRawGGUF(1, 0).info("w", 0, 0, 1<<31, 1<<31)), []string{`"w"`, "overflows"}},
		"five dimensions":           {pad(newRawGGUF(1, 0).info("w", 0, 0, 1, 1, 1, 1, 1)), []string{`"w"`, "5 dimensions", "1 to 4"}},
		"2^32−1 dimensions":         {pad(newRawGGUF(1, 0).str("w").u32(math.MaxUint32)), []string{`"w"`, "4294967295 dimensions"}},
		"no name":                   {pad(newRawGGUF(1, 0).info("", 0, 0, 1)), []string{"tensor 0", "name"}},
		"long name":                 {pad(newRawGGUF(1, 0).str(string(make([]byte, 2000)))), []string{"name of tensor 0", "2000 bytes", "at most 1024"}},
		"unsupported type":          {pad(newRawGGUF(1, 0).info("w", 23, 0, 256)), []string{`"w"`, "iq4_xs", "not supported", "q4_k"}},
		"unknown type":              {pad(newRawGGUF(1, 0).info("w", 999, 0, 256)), []string{`"w"`, "ggml type 999"}},
		"ragged blocks":             {newRawGGUF(1, 0).info("w", 8, 0, 33).data(64).b, []string{`"w"`, "rows of 33", "q8_0", "blocks of 32"}},
		"offset not aligned":        {newRawGGUF(1, 0).info("w", 0, 4, 4).data(64).b, []string{`"w"`, "offset 4", "alignment 32"}},
		"offset past the end":       {newRawGGUF(1, 0).info("w", 0, huge, 4).data(64).b, []string{`"w"`, "offset 9223372036854775808", "64 bytes"}},
		"truncated":                 {newRawGGUF(1, 0).info("w", 0, 0, 32).data(127).b, []string{`"w"`, "takes 128 bytes", "only 127", "truncated"}},
		"overlap": {
			newRawGGUF(2, 0).info("a", 0, 0, 32).info("b", 0, 96, 32).data(256).b,
			[]string{`"a"`, `"b"`, "overlap"},
		},
		"duplicate name": {
			newRawGGUF(2, 0).info("a", 0, 0, 8).info("a", 0, 32, 8).data(64).b,
			[]string{`"a"`, "twice"},
		},
		"duplicate name after translation": {
			newRawGGUF(2, 1).str("general.architecture").u32(8).str("x").
				info("token_embd.weight", 0, 0, 8).info("model.embed_tokens.weight", 0, 32, 8).data(64).b,
			[]string{`"token_embd.weight"`, `"model.embed_tokens.weight"`},
		},
		"duplicate key":     {pad(newRawGGUF(0, 2).str("k").u32(4).u32(1).str("k").u32(4).u32(1)), []string{`"k"`, "twice"}},
		"2^63 key length":   {pad(newRawGGUF(0, 1).u64(huge)), []string{"metadata key 0", "9223372036854775808", "at most"}},
		"2^63 value length": {pad(newRawGGUF(0, 1).str("k").u32(8).u64(huge)), []string{"value of k", "9223372036854775808"}},
		"2^63 array":        {pad(newRawGGUF(0, 1).str("k").u32(9).u32(0).u64(huge)), []string{`"k"`, "9223372036854775808 elements"}},
		"2^63 strings":      {pad(newRawGGUF(0, 1).str("k").u32(9).u32(8).u64(huge)), []string{`"k"`, "9223372036854775808 elements"}},
		"string in array past the end": {
			newRawGGUF(0, 1).str("k").u32(9).u32(8).u64(2).str("a").u64(huge).b,
			[]string{"strings of k", "ends inside"},
		},
		"recursive metadata":   {pad(newRawGGUF(0, 1).str("k").u32(9).u32(9).u64(1)), []string{`"k"`, "array of arrays"}},
		"unknown value type":   {pad(newRawGGUF(0, 1).str("k").u32(77)), []string{`"k"`, "value type 77"}},
		"unknown element type": {pad(newRawGGUF(0, 1).str("k").u32(9).u32(77).u64(1)), []string{`"k"`, "element type 77"}},
		"boolean 2":            {append(newRawGGUF(0, 1).str("k").u32(7).b, 2), []string{`"k"`, "boolean is 2"}},
		"element out of range": {
			newRawGGUF(0, 1).str("k").u32(9).u32(10).u64(1).u64(huge).b,
			[]string{`"k"`, "element 0", "out of range"},
		},
		"alignment zero": {pad(newRawGGUF(0, 1).str("general.alignment").u32(4).u32(0)), []string{"general.alignment is 0", "power of two"}},
		"alignment text": {pad(newRawGGUF(0, 1).str("general.alignment").u32(8).str("32")), []string{"general.alignment is 32", "power of two"}},
		"no architecture": {
			newRawGGUF(1, 0).info("a", 0, 0, 8).data(32).b,
			[]string{"has no general.architecture"},
		},
		"one part of a split": {
			pad(newRawGGUF(0, 1).str("split.count").u32(4).u32(3)),
			[]string{"3 parts", "merge"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, "hostile.gguf", tc.data)
			_, err := Open(path)
			require.ErrorContains(t, err, path)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestGGUFMetadataThatContradictsTheTensorsIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		key   string
		value any
		want  []string
	}{
		"width":               {"llama.embedding_length", uint32(64), []string{"model.embed_tokens.weight", "[40 32]", "[40 64]"}},
		"too many layers":     {"llama.block_count", uint32(3), []string{"model.layers.2.", "missing"}},
		"too few layers":      {"llama.block_count", uint32(1), []string{"model.layers.1.", "1 layers"}},
		"2^63 layers":         {"llama.block_count", uint64(1) << 63, []string{"llama.block_count is 9223372036854775808", "1 to 10000"}},
		"negative layers":     {"llama.block_count", int32(-1), []string{"llama.block_count is -1"}},
		"layers as text":      {"llama.block_count", "two", []string{`llama.block_count is "two"`}},
		"no layers":           {"llama.block_count", nil, []string{"llama.block_count"}},
		"heads do not divide": {"llama.attention.head_count", uint32(3), []string{"model.layers.0.self_attn.q_proj", "[32 32]", "[48 32]"}},
		"ragged groups":       {"llama.attention.head_count_kv", uint32(4), []string{"2 query heads and 4 key/value heads"}},
		"odd head":            {"llama.attention.key_length", uint32(15), []string{"head size of 15", "even"}},
		"layers differ":       {"llama.attention.head_count_kv", []int32{1, 2}, []string{"head_count_kv differs by layer"}},
		"part of the head":    {"llama.rope.dimension_count", uint32(8), []string{"rope.dimension_count is 8"}},
		"value size":          {"llama.attention.value_length", uint32(8), []string{"value_length is 8"}},
		"no epsilon":          {"llama.attention.layer_norm_rms_epsilon", nil, []string{"layer_norm_rms_epsilon"}},
		"epsilon not finite":  {"llama.attention.layer_norm_rms_epsilon", float32(math.NaN()), []string{"layer_norm_rms_epsilon is NaN"}},
		"theta negative":      {"llama.rope.freq_base", float32(-1), []string{"rope.freq_base is -1"}},
		"vocabulary":          {"llama.vocab_size", uint32(41), []string{"model.embed_tokens.weight", "[41 32]"}},
		"end token":           {"tokenizer.ggml.eos_token_id", uint32(40), []string{"end token 40", "40 tokens"}},
	} {
		t.Run(name, func(t *testing.T) {
			md := tinyGGUFMetadata("llama")
			if md[tc.key] = tc.value; tc.value == nil {
				delete(md, tc.key)
			}
			path := writeFile(t, "model.gguf", ggufBytes(t, md, tinyGGUFTensors("llama")))
			_, err := Open(path)
			require.ErrorContains(t, err, path)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// The strong form of "truncated": no prefix of a good file opens, and none
// panics.
func TestNoPrefixOfAGGUFFileOpens(t *testing.T) {
	data := ggufBytes(t, tinyGGUFMetadata("qwen3"), tinyGGUFTensors("qwen3"))
	f, err := parseGGUF(&mapping{data: data})
	require.NoError(t, err)
	last := 0
	for _, tensor := range f.tensors {
		last = max(last, offsetIn(data, tensor.Data)+len(tensor.Data))
	}
	for n := 0; n < last; n += 1 + n/200 {
		_, err := parseGGUF(&mapping{data: data[:n:n]})
		require.Error(t, err, "%d of %d bytes", n, len(data))
	}
	for n := last - 64; n < last; n++ {
		_, err := parseGGUF(&mapping{data: data[:n:n]})
		require.Error(t, err, "%d of %d bytes", n, len(data))
	}
}

// Whatever is changed in a file: it is refused, or every row can be read.
func TestAnyDamageToAGGUFFileIsRefusedOrHarmless(t *testing.T) {
	good := ggufBytes(t, tinyGGUFMetadata("gemma3"), tinyGGUFTensors("gemma3"))
	f, err := parseGGUF(&mapping{data: good})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte{}, good...)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			at := rapid.IntRange(0, f.dataStart-1).Draw(t, "at")
			data[at] = rapid.Byte().Draw(t, "byte")
		}
		if c, err := openGGUF("x", &mapping{data: data}); err == nil {
			readAll(c)
		}
	})
}
