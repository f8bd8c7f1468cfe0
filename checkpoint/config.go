package checkpoint

import "encoding/json"

// The two values of [Config].LayerTypes.
const (
	FullAttention    = "full_attention"
	SlidingAttention = "sliding_attention"
)

// A Config describes a model, in one form for all formats: normalized from
// config.json and generation_config.json, or from GGUF metadata. Sizes count
// elements. For known architectures every size has been compared with the
// shapes of the tensors.
type Config struct {
	// Architecture is "llama" (also for Mistral), "qwen2", "qwen3" or
	// "gemma3"; for anything else the model_type (GGUF: general.architecture)
	// as found, and nothing about the tensors is validated.
	Architecture string
	// ModelType and Architectures are model_type and architectures as found.
	ModelType     string
	Architectures []string
	// Draft says that this is not a whole model, although its architecture may
	// be known: a DFlash drafter, nothing but multi-token-prediction tensors, or
	// a class this package does not know. Its tensors are not validated.
	Draft bool

	HiddenSize, Layers, Heads, KVHeads, HeadDim, FFN, VocabSize int
	// Context is the longest trained context in tokens.
	Context int

	RMSEps    float64
	RopeTheta float64
	// RopeLocalTheta is the rotary base of Gemma 3's sliding layers, 0 otherwise.
	RopeLocalTheta float64
	// RopeScaling stretches RopeTheta's frequencies; nil for none. On Gemma 3 it
	// applies to full-attention layers only.
	RopeScaling *RopeScaling
	// RopeFactors are divisors of the inverse frequencies, HeadDim/2 of them
	// (GGUF rope_freqs.weight, the same as Llama 3 scaling computed beforehand),
	// or nil.
	RopeFactors []float32
	// RopeInterleaved says that rows of q and k are stored for rotating adjacent
	// pairs (GGUF llama): row 2i+j of a head is row i+j·HeadDim/2 of the
	// half-split order, and loaders permute rows back.
	RopeInterleaved bool

	// SlidingWindow is the number of positions a sliding layer sees, the current
	// one included; 0 when no layer slides.
	SlidingWindow int
	// LayerTypes has an entry per layer, FullAttention or SlidingAttention; nil
	// when no layer slides.
	LayerTypes []string

	// TieEmbeddings says that the head is the embedding matrix.
	TieEmbeddings bool
	// AttentionBias says that q, k, v and o have biases (o only where a tensor of
	// that name exists, in GGUF files and Qwen2); MLPBias that gate, up and down have.
	AttentionBias, MLPBias bool
	// NormPlusOne says that norms are stored zero-centred and loaders use 1+w
	// (Hugging Face's gemma3; GGUF files hold the sum already).
	NormPlusOne bool
	// QueryScale multiplies q·k: 1/√HeadDim, or 1/√query_pre_attn_scalar.
	QueryScale float64
	// Activation is "silu" or "gelu_tanh"; as found for other architectures.
	Activation string
	// EmbedScale multiplies embeddings: √HiddenSize for Gemma 3, else 1. It is
	// not rounded here: Transformers rounds it to the type it computes in, so
	// use float32(EmbedScale).
	EmbedScale float64

	// BOS and Pad are −1 when absent. Pad is as found, since nothing here uses it;
	// some checkpoints name one beyond their vocabulary. EOS holds every token that ends a text,
	// ascending: those of config.json, generation_config.json, and GGUF's eos,
	// eot and eom ids with control tokens of a well-known ending text.
	BOS, Pad int
	EOS      []int

	// Raw is config.json as found, for fields of drafters; nil for GGUF.
	Raw json.RawMessage
}

// RopeScaling holds the parameters of a rotary scaling method, named as in
// Transformers' modeling_rope_utils. A number that is absent is 0.
type RopeScaling struct {
	Type                          string // "linear", "llama3", "yarn", "dynamic", … as found
	Factor                        float64
	LowFreqFactor, HighFreqFactor float64
	OriginalContext               int
	AttentionFactor               float64
	BetaFast, BetaSlow            float64
}
