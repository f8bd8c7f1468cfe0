package checkpoint

import (
	"encoding/binary"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHuggingFaceDirectoriesOpenForEveryArchitecture(t *testing.T) {
	for _, modelType := range []string{"llama", "mistral", "qwen2", "qwen3", "gemma3_text"} {
		t.Run(modelType, func(t *testing.T) {
			c, err := OpenFS(tinyHF(t, modelType, nil), "m")
			require.NoError(t, err)
			want := tinyTensors(families[modelType].architecture)
			require.Len(t, c.Tensors(), len(want))
			for _, o := range want {
				got, err := c.Tensor(o.Name)
				require.NoError(t, err)
				require.Equal(t, o.Data, got.Data)
			}
			require.Equal(t, FormatHF, c.Format())
			require.Empty(t, c.Metadata().Keys())
			require.Positive(t, readAll(c))
			require.NoError(t, c.Close())
		})
	}
}

// sharded splits a tiny model over two files.
func sharded(t testing.TB) (files fstest.MapFS, index map[string]string) {
	t.Helper()
	tensors := tinyTensors("llama")
	const a, b = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	index = map[string]string{}
	for i, o := range tensors {
		if index[o.Name] = a; i >= 5 {
			index[o.Name] = b
		}
	}
	return fstest.MapFS{
		"m/config.json": {Data: toJSON(t, tinyConfig("llama", nil))},
		"m/" + a:        {Data: safetensorsBytes(t, tensors[:5]...)},
		"m/" + b:        {Data: safetensorsBytes(t, tensors[5:]...)},
	}, index
}

func indexJSON(t testing.TB, index map[string]string) *fstest.MapFile {
	return &fstest.MapFile{Data: toJSON(t, map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": index})}
}

func TestAShardedCheckpointEqualsTheSameInOneFile(t *testing.T) {
	files, index := sharded(t)
	files["m/"+indexName] = indexJSON(t, index)
	many, err := OpenFS(files, "m")
	require.NoError(t, err)
	one, err := OpenFS(tinyHF(t, "llama", nil), "m")
	require.NoError(t, err)
	require.Len(t, many.Tensors(), len(one.Tensors()))
	for i, tensor := range many.Tensors() {
		require.Equal(t, one.Tensors()[i].Name, tensor.Name)
		require.Equal(t, one.Tensors()[i].Data, tensor.Data)
	}
	require.NotEqual(t, one.Hash(), many.Hash())
}

func TestHostileIndexesAreErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(index map[string]string)
		want   []string
	}{
		"absent file":    {func(x map[string]string) { x["lm_head.weight"] = "gone.safetensors" }, []string{indexName, `"gone.safetensors"`, "not exist"}},
		"wrong file":     {func(x map[string]string) { x["lm_head.weight"] = "model-00002-of-00002.safetensors" }, []string{indexName, `"lm_head.weight"`, "model-00002"}},
		"absent tensor":  {func(x map[string]string) { x["ghost"] = "model-00001-of-00002.safetensors" }, []string{`"ghost"`}},
		"parent folder":  {func(x map[string]string) { x["ghost"] = "../m/config.json" }, []string{`"ghost"`, "../m/config.json", "not a file of this directory"}},
		"another folder": {func(x map[string]string) { x["ghost"] = "/etc/passwd" }, []string{`"ghost"`, "/etc/passwd"}},
		"empty":          {func(x map[string]string) { clear(x) }, []string{"weight_map is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			files, index := sharded(t)
			tc.change(index)
			files["m/"+indexName] = indexJSON(t, index)
			_, err := OpenFS(files, "m")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	files, index := sharded(t)
	files["m/model-00002-of-00002.safetensors"] = files["m/model-00001-of-00002.safetensors"]
	files["m/"+indexName] = indexJSON(t, index)
	_, err := OpenFS(files, "m")
	require.ErrorContains(t, err, "is in model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors")
	for _, raw := range []string{`{}`, `[]`, `{"weight_map":{"a":"x","a":"y"}}`, `{"weight_map":{"a":1}}`, `{"weight_map":`} {
		files["m/"+indexName] = &fstest.MapFile{Data: []byte(raw)}
		_, err := OpenFS(files, "m")
		require.ErrorContains(t, err, indexName, raw)
	}
	delete(files, "m/"+indexName)
	_, err = OpenFS(files, "m")
	require.ErrorContains(t, err, "2 *.safetensors files but neither")
}

// rawSafetensors puts a header in front of n bytes.
func rawSafetensors(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func TestHostileSafetensorsAreErrorsThatNameTheCause(t *testing.T) {
	for name, tc := range map[string]struct {
		data []byte
		want []string
	}{
		"empty":               {nil, []string{"0 bytes"}},
		"2^63 header":         {append(binary.LittleEndian.AppendUint64(nil, 1<<63), '{'), []string{"header of 9223372036854775808 bytes"}},
		"header past the end": {append(binary.LittleEndian.AppendUint64(nil, 100), '{', '}'), []string{"header of 100 bytes", "truncated"}},
		"no object":           {rawSafetensors(`[]`, 0), []string{"JSON object"}},
		"cut object":          {rawSafetensors(`{"a":{"dtype":"F32"`, 0), []string{`"a"`}},
		"two objects":         {rawSafetensors(`{}{}`, 0), []string{"follows"}},
		"deep nesting":        {rawSafetensors(`{"a":`+string(bytesOf('[', 100_000)), 0), []string{`"a"`}},
		"not an entry":        {rawSafetensors(`{"a":7}`, 0), []string{`"a"`, "dtype, shape"}},
		"null entry":          {rawSafetensors(`{"a":null}`, 0), []string{`"a"`, "dtype"}},
		"other case of shape": {rawSafetensors(`{"a":{"dtype":"F32","shaPe":[1],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "has no shape"}},
		"other case of dtype": {rawSafetensors(`{"a":{"Dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "has no dtype"}},
		"null dimension":      {rawSafetensors(`{"a":{"dtype":"F32","shape":[null],"data_offsets":[0,0]}}`, 0), []string{`"a"`, "[null]"}},
		"unknown dtype":       {rawSafetensors(`{"a":{"dtype":"F3","shape":[1],"data_offsets":[0,4]}}`, 4), []string{`"a"`, `"F3"`}},
		"negative dimension":  {rawSafetensors(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "dimension of -1"}},
		"2^63 dimension":      {rawSafetensors(`{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "9223372036854775808"}},
		"product overflows":   {rawSafetensors(`{"a":{"dtype":"F32","shape":[4611686018427387000,4],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "4611686018427387000"}},
		"size overflows":      {rawSafetensors(`{"a":{"dtype":"F32","shape":[2147483648,2147483647],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "overflows"}},
		"many dimensions":     {rawSafetensors(`{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "9 dimensions"}},
		"fractional":          {rawSafetensors(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), []string{`"a"`, "1.5"}},
		"one offset":          {rawSafetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`, 4), []string{`"a"`, "1 data_offsets"}},
		"negative offset":     {rawSafetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4), []string{`"a"`, "-4 to 0"}},
		"reversed offsets":    {rawSafetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4), []string{`"a"`, "4 to 0"}},
		"truncated":           {rawSafetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7), []string{`"a"`, "0 to 8", "7 bytes", "truncated"}},
		"wrong size":          {rawSafetensors(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), []string{`"a"`, "needs 12 bytes", "give 8"}},
		"duplicate name":      {rawSafetensors(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), []string{`"a"`, "twice"}},
		"overlap":             {rawSafetensors(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6), []string{`"a"`, `"b"`, "overlap"}},
		"gap":                 {rawSafetensors(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6), []string{`"a"`, "belong to no tensor"}},
		"trailing bytes":      {rawSafetensors(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 6), []string{"last 2 bytes"}},
		"empty name":          {rawSafetensors(`{"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4), []string{`""`, "not text"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := tinyHF(t, "llama", nil)
			files["m/model.safetensors"].Data = tc.data
			_, err := OpenFS(files, "m")
			require.ErrorContains(t, err, "m/model.safetensors")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func bytesOf(b byte, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = b
	}
	return out
}

func TestNoPrefixOfASafetensorsFileOpens(t *testing.T) {
	data := safetensorsBytes(t, floats("a", F32, 3, 2), floats("b", F16, 4), floats("c", F32))
	for n := range len(data) {
		_, _, err := parseSafetensors(&mapping{data: data[:n:n]})
		require.Error(t, err, "%d of %d bytes", n, len(data))
	}
	_, _, err := parseSafetensors(&mapping{data: data})
	require.NoError(t, err)
}

func TestAnyDamageToASafetensorsHeaderIsRefusedOrHarmless(t *testing.T) {
	files := tinyHF(t, "qwen3", nil)
	good := files["m/model.safetensors"].Data
	header := 8 + int(binary.LittleEndian.Uint64(good))
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte{}, good...)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			data[rapid.IntRange(0, header-1).Draw(t, "at")] = byte(rapid.SampledFrom([]rune(`0123456789"[]{},:aF`)).Draw(t, "byte"))
		}
		if arrays, _, err := parseSafetensors(&mapping{data: data}); err == nil {
			tensors, _, err := assemble(arrays, quantizationConfig{})
			require.NoError(t, err)
			readAll(&Checkpoint{tensors: tensors})
		}
	})
}

func TestTensorsOfOtherTypesMatterOnlyToThoseWhoAsk(t *testing.T) {
	files := tinyHF(t, "llama", nil)
	header := `{"x.ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}`
	files["m/extra.safetensors"] = &fstest.MapFile{Data: rawSafetensors(header, 16)}
	files["m/first.safetensors"] = files["m/model.safetensors"]
	delete(files, "m/model.safetensors")
	index := map[string]string{"x.ids": "extra.safetensors", "lm_head.weight": "first.safetensors"}
	files["m/"+indexName] = indexJSON(t, index)
	c, err := OpenFS(files, "m")
	require.NoError(t, err)
	_, ok := c.Lookup("x.ids")
	require.False(t, ok)
	_, err = c.Tensor("x.ids")
	require.ErrorContains(t, err, "I64")
	_, err = c.Tensor("embed_tokens.weight")
	require.ErrorContains(t, err, `"embed_tokens.weight" is missing (there is "model.embed_tokens.weight")`)
}

func TestFileReadsOnlyFilesOfTheDirectory(t *testing.T) {
	files := tinyHF(t, "llama", nil)
	files["m/tokenizer.json"] = &fstest.MapFile{Data: []byte("{}")}
	files["secret"] = &fstest.MapFile{Data: []byte("no")}
	c, err := OpenFS(files, "m")
	require.NoError(t, err)
	got, err := c.File("tokenizer.json")
	require.NoError(t, err)
	require.Equal(t, "{}", string(got))
	_, err = c.File("tokenizer.model")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, name := range []string{"../secret", "..", "", "a/b", `a\b`, "/etc/passwd"} {
		_, err = c.File(name)
		require.ErrorContains(t, err, "not a plain file name", name)
	}
}

// mlxFiles returns a directory whose q_proj of layer 0 is packed with 8 bits
// and whose embedding is packed with 4.
func mlxFiles(t testing.TB, quantization any) fstest.MapFS {
	t.Helper()
	var tensors []Output
	pack := func(o Output, typ Type) {
		words := make([]byte, o.Shape[0]*o.Shape[1]/typ.BlockSize()*4)
		for i := range words {
			words[i] = byte(i * 7)
		}
		module := o.Name[:len(o.Name)-len(".weight")]
		tensors = append(tensors,
			Output{Name: o.Name, Type: typ, Shape: o.Shape, Data: words},
			floats(module+".scales", F16, o.Shape[0], o.Shape[1]/32), floats(module+".biases", F16, o.Shape[0], o.Shape[1]/32))
	}
	for _, o := range tinyTensors("llama") {
		switch o.Name {
		case "model.embed_tokens.weight":
			pack(o, MLX4)
		case "model.layers.0.self_attn.q_proj.weight":
			pack(o, MLX8)
		default:
			tensors = append(tensors, o)
		}
	}
	return fstest.MapFS{
		"m/config.json":       {Data: toJSON(t, tinyConfig("llama", map[string]any{"quantization": quantization}))},
		"m/model.safetensors": {Data: safetensorsBytes(t, tensors...)},
	}
}

func TestMLXMatricesAreOneTensorWithScalesAndBiases(t *testing.T) {
	c, err := OpenFS(mlxFiles(t, map[string]any{
		"group_size": 32, "bits": 4, "mode": "affine",
		"model.layers.0.self_attn.q_proj": map[string]any{"group_size": 32, "bits": 8},
		"model.layers.0.self_attn.k_proj": false,
	}), "m")
	require.NoError(t, err)
	require.Len(t, c.Tensors(), len(tinyTensors("llama")))
	embed, err := c.Tensor("model.embed_tokens.weight")
	require.NoError(t, err)
	require.Equal(t, MLX4, embed.Type)
	require.Equal(t, []int{tinyVocab, tinyHidden}, embed.Shape)
	require.Equal(t, 32, embed.Group)
	row := make([]float32, tinyHidden)
	embed.Float32Row(3, row)
	for j, got := range row {
		word := binary.LittleEndian.Uint32(embed.RowBytes(3)[j/8*4:])
		q := float32(word >> (4 * (j % 8)) & 15)
		require.InDelta(t, float32(embed.Scales.float(3)*q)+embed.Biases.float(3), got, 0)
	}
	require.Equal(t, int64(len(embed.Data)+2*2*tinyVocab), embed.Size())
	q, err := c.Tensor("model.layers.0.self_attn.q_proj.weight")
	require.NoError(t, err)
	require.Equal(t, MLX8, q.Type)
	readAll(c)
}

func TestMLXQuantizationThatDoesNotFitIsAnError(t *testing.T) {
	q8 := map[string]any{"group_size": 32, "bits": 8}
	with := func(size, bits any) map[string]any {
		return map[string]any{"group_size": size, "bits": bits, "model.layers.0.self_attn.q_proj": q8}
	}
	for name, tc := range map[string]struct {
		quantization any
		want         []string
	}{
		"3 bits":        {with(32, 3), []string{"quantization.bits is 3", "4 and 8"}},
		"group 0":       {with(0, 4), []string{"group_size is 0"}},
		"group as text": {with("32", 4), []string{"quantization"}},
		"another mode":  {map[string]any{"group_size": 32, "bits": 4, "mode": "mxfp4"}, []string{"mxfp4", "affine"}},
		"no object":     {7, []string{"quantization", "object"}},
		"wrong group":   {with(16, 4), []string{`"model.embed_tokens.weight"`, "group size 16", "[40 2]", "[40 1]"}},
		"wrong bits":    {with(32, 8), []string{`"model.embed_tokens.weight"`, "8 bits"}},
		"absent":        {nil, []string{`"model.embed_tokens.weight"`, "U32", "quantization"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenFS(mlxFiles(t, tc.quantization), "m")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	_, err := OpenFS(tinyHF(t, "llama", map[string]any{"quantization_config": map[string]any{"quant_method": "gptq"}}), "m")
	require.ErrorContains(t, err, `"gptq"`)
}

func TestMultimodalNamesLookLikeTextOnlyOnes(t *testing.T) {
	for stored, want := range map[string]string{
		"language_model.model.layers.0.x": "model.layers.0.x",
		"model.language_model.layers.0.x": "model.layers.0.x",
		"language_model.lm_head.weight":   "lm_head.weight",
		"lm_head.weight":                  "lm_head.weight",
		"mtp.fc.weight":                   "mtp.fc.weight",
	} {
		require.Equal(t, want, textName(stored))
	}
}

func TestHashTellsWeightsAndConfigurationsApart(t *testing.T) {
	open := func(files fstest.MapFS) string {
		c, err := OpenFS(files, "m")
		require.NoError(t, err)
		return c.Hash()
	}
	base := open(tinyHF(t, "llama", nil))
	require.Equal(t, base, open(tinyHF(t, "llama", nil)))
	require.Len(t, base, 64)
	require.NotEqual(t, base, open(tinyHF(t, "llama", map[string]any{"rope_theta": 5e5})))
	files := tinyHF(t, "llama", nil)
	data := files["m/model.safetensors"].Data
	data[len(data)-1] ^= 1
	require.NotEqual(t, base, open(files))
}
