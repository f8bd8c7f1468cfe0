package randommodel

import (
	"fmt"

	"surmise/checkpoint"
)

// shape is what a model's published config.json says.
type shape struct {
	name, arch, pre            string
	hidden, layers, heads      int
	kvHeads, headDim, ffn      int
	vocab, context             int
	theta, eps                 float32
	queryKeyNorm, ropeFactors  bool
	beginOfText, endOfText     string
	beginOfTextID, endOfTextID int
}

// shapes of models whose heads are tied to their embeddings.
var shapes = map[string]shape{
	"tiny": {
		name: "tiny", arch: "llama", pre: "smollm", hidden: 256, layers: 2, heads: 4, kvHeads: 2, headDim: 64, ffn: 512,
		vocab: 512, context: 2048, theta: 10000, eps: 1e-5, beginOfText: "<|im_start|>", endOfText: "<|im_end|>",
		beginOfTextID: 1, endOfTextID: 2,
	},
	"smollm2-135m": {
		name: "SmolLM2-135M", arch: "llama", pre: "smollm", hidden: 576, layers: 30, heads: 9, kvHeads: 3, headDim: 64, ffn: 1536,
		vocab: 49152, context: 8192, theta: 100000, eps: 1e-5, beginOfText: "<|im_start|>", endOfText: "<|im_end|>",
		beginOfTextID: 1, endOfTextID: 2,
	},
	"qwen3-0.6b": {
		name: "Qwen3-0.6B", arch: "qwen3", pre: "qwen2", hidden: 1024, layers: 28, heads: 16, kvHeads: 8, headDim: 128, ffn: 3072,
		vocab: 151936, context: 40960, theta: 1e6, eps: 1e-6, queryKeyNorm: true, beginOfText: "<|endoftext|>", endOfText: "<|im_end|>",
		beginOfTextID: 151643, endOfTextID: 151645,
	},
	"llama-3.2-1b": {
		name: "Llama-3.2-1B", arch: "llama", pre: "llama-bpe", hidden: 2048, layers: 16, heads: 32, kvHeads: 8, headDim: 64, ffn: 8192,
		vocab: 128256, context: 131072, theta: 500000, eps: 1e-5, ropeFactors: true, beginOfText: "<|begin_of_text|>", endOfText: "<|eot_id|>",
		beginOfTextID: 128000, endOfTextID: 128009,
	},
}

// mix says which type the tensors of a quantization have.
type mix struct {
	fileType uint32 // general.file_type
	// body is the type of most matrices, head that of the embedding, which is
	// the head too, and more that of the matrices that matter most.
	body, head, more checkpoint.Type
}

// mixes as llama.cpp's quantizer makes them.
var mixes = map[string]mix{
	"q8_0":   {7, checkpoint.Q8_0, checkpoint.Q8_0, checkpoint.Q8_0},
	"q4_0":   {2, checkpoint.Q4_0, checkpoint.Q6_K, checkpoint.Q4_0},
	"q4_k_m": {15, checkpoint.Q4_K, checkpoint.Q6_K, checkpoint.Q6_K},
	"f16":    {1, checkpoint.F16, checkpoint.F16, checkpoint.F16},
}

// fits replaces K-quants where rows are no multiple of their 256 weights.
func fits(t checkpoint.Type, cols int) checkpoint.Type {
	if cols%t.BlockSize() == 0 {
		return t
	}
	switch t {
	case checkpoint.Q4_K:
		return checkpoint.Q5_0
	case checkpoint.Q6_K:
		return checkpoint.Q8_0
	}
	return t
}

// matters tells whether a layer's value and down projections are of type more.
func matters(l, layers int) bool {
	return l < layers/8 || l >= 7*layers/8 || (l-layers/8)%3 == 2
}

// tensors lists the model's tensors.
func tensors(s shape, m mix, seed uint64) []checkpoint.Output {
	var out []checkpoint.Output
	matrix := func(name string, t checkpoint.Type, rows, cols int) {
		out = append(out, random(name, fits(t, cols), rows, cols, seed+uint64(len(out))))
	}
	norm := func(name string, n int) { out = append(out, constant(name, n, 1)) }
	matrix("token_embd.weight", m.head, s.vocab, s.hidden)
	for l := range s.layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", l, part) }
		more := m.body
		if matters(l, s.layers) {
			more = m.more
		}
		q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
		norm(name("attn_norm"), s.hidden)
		matrix(name("attn_q"), m.body, q, s.hidden)
		matrix(name("attn_k"), m.body, kv, s.hidden)
		matrix(name("attn_v"), more, kv, s.hidden)
		if s.queryKeyNorm {
			norm(name("attn_q_norm"), s.headDim)
			norm(name("attn_k_norm"), s.headDim)
		}
		matrix(name("attn_output"), m.body, s.hidden, q)
		norm(name("ffn_norm"), s.hidden)
		matrix(name("ffn_gate"), m.body, s.ffn, s.hidden)
		matrix(name("ffn_up"), m.body, s.ffn, s.hidden)
		matrix(name("ffn_down"), more, s.hidden, s.ffn)
	}
	norm("output_norm.weight", s.hidden)
	if s.ropeFactors {
		out = append(out, constant("rope_freqs.weight", s.headDim/2, 1))
	}
	return out
}

// metadata are the key/value pairs engines need to load the file.
func metadata(s shape, m mix) map[string]any {
	md := map[string]any{
		"general.architecture": s.arch,
		"general.name":         s.name + " (random weights)",
		"general.file_type":    m.fileType,
	}
	for key, v := range map[string]any{
		"block_count": uint32(s.layers), "context_length": uint32(s.context), "embedding_length": uint32(s.hidden),
		"feed_forward_length": uint32(s.ffn), "attention.head_count": uint32(s.heads), "attention.head_count_kv": uint32(s.kvHeads),
		"attention.key_length": uint32(s.headDim), "attention.value_length": uint32(s.headDim),
		"rope.dimension_count": uint32(s.headDim), "rope.freq_base": s.theta,
		"attention.layer_norm_rms_epsilon": s.eps, "vocab_size": uint32(s.vocab),
	} {
		md[s.arch+"."+key] = v
	}
	vocabulary(md, s)
	return md
}

// The values of tokenizer.ggml.token_type.
const (
	pieceNormal  = int32(1)
	pieceControl = int32(3)
	pieceUnused  = int32(5)
)

// vocabulary is a byte-level one: a token for every byte, one merge, since no
// merges at all are refused, and padding.
func vocabulary(md map[string]any, s shape) {
	tokens, types := make([]string, s.vocab), make([]int32, s.vocab)
	at := 0
	place := func(text string, kind int32) {
		for tokens[at] != "" {
			at++
		}
		tokens[at], types[at] = text, kind
	}
	tokens[s.beginOfTextID], types[s.beginOfTextID] = s.beginOfText, pieceControl
	tokens[s.endOfTextID], types[s.endOfTextID] = s.endOfText, pieceControl
	for _, text := range byteTexts() {
		place(text, pieceNormal)
	}
	place("Ġt", pieceNormal)
	for i := range tokens {
		if tokens[i] == "" {
			tokens[i], types[i] = fmt.Sprintf("[PAD%d]", i), pieceUnused
		}
	}
	md["tokenizer.ggml.model"] = "gpt2"
	md["tokenizer.ggml.pre"] = s.pre
	md["tokenizer.ggml.tokens"] = tokens
	md["tokenizer.ggml.token_type"] = types
	md["tokenizer.ggml.merges"] = []string{"Ġ t"}
	md["tokenizer.ggml.bos_token_id"] = uint32(s.beginOfTextID)
	md["tokenizer.ggml.eos_token_id"] = uint32(s.endOfTextID)
	md["tokenizer.ggml.add_bos_token"] = false
}

// byteTexts are the 256 characters that byte-level vocabularies write bytes as:
// printable ones as themselves, the others from U+0100 on.
func byteTexts() []string {
	texts := make([]string, 256)
	next := rune(256)
	for b := range texts {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r, next = next, next+1
		}
		texts[b] = string(r)
	}
	return texts
}
