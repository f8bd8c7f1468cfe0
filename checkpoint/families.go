package checkpoint

// A family is what this package knows about one model_type beyond its
// config.json: the defaults of Transformers' configuration class for keys that
// are absent, and what the class does without a key.
type family struct {
	architecture string   // Config.Architecture
	classes      []string // whole models; any other class is a draft or unknown
	qkvBias      bool     // q, k and v have biases whatever attention_bias says
	qkNorm       bool     // heads of q and k are normalized
	sandwich     bool     // norms also after attention and MLP; all norms zero-centred; scaled embeddings

	context    int
	theta      float64
	localTheta float64
	eps        float64
	headDim    int // 0: hidden_size / num_attention_heads
	heads      int // 0: required
	kvHeads    int // 0: as heads
	vocab      int // 0: required
	activation string
	tied       bool
	window     int // of sliding layers
	slides     sliding
}

// sliding says which layers have a sliding window when layer_types is absent.
type sliding uint8

const (
	neverSlides   sliding = iota
	allSlide              // Mistral: every layer, unless sliding_window is null
	upperSlide            // Qwen: layers from max_window_layers on, if use_sliding_window
	patternSlides         // Gemma 3: all but every sliding_window_pattern-th layer
)

// families is keyed by model_type. Defaults: transformers,
// models/*/configuration_*.py.
var families = map[string]*family{
	"llama": {
		architecture: "llama", classes: []string{"LlamaForCausalLM"},
		context: 2048, theta: 10000, eps: 1e-6, activation: "silu",
	},
	"mistral": {
		architecture: "llama", classes: []string{"MistralForCausalLM"},
		context: 131072, theta: 10000, eps: 1e-6, kvHeads: 8, activation: "silu",
		window: 4096, slides: allSlide,
	},
	"qwen2": {
		architecture: "qwen2", classes: []string{"Qwen2ForCausalLM"}, qkvBias: true,
		context: 32768, theta: 10000, eps: 1e-6, activation: "silu", window: 4096, slides: upperSlide,
	},
	"qwen3": {
		architecture: "qwen3", classes: []string{"Qwen3ForCausalLM"}, qkNorm: true,
		context: 32768, theta: 10000, eps: 1e-6, headDim: 128, activation: "silu", window: 4096, slides: upperSlide,
	},
	"gemma3_text": gemma3,
	"gemma3":      gemma3,
}

var gemma3 = &family{
	architecture: "gemma3", classes: []string{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
	qkNorm: true, sandwich: true,
	context: 131072, theta: 1e6, localTheta: 10000, eps: 1e-6, headDim: 256, heads: 8, kvHeads: 4,
	vocab: 262208, activation: "gelu_tanh", tied: true, window: 4096, slides: patternSlides,
}

// byArchitecture returns the family that describes an architecture's tensors.
func byArchitecture(name string) *family {
	if f := families[name]; f != nil && f.architecture == name {
		return f
	}
	return nil
}
