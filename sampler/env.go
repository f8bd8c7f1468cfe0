package sampler

import "sync"

// Env is what a chain must know of the model and its tokenizer.
type Env struct {
	// Vocab is the length of a row of logits (padding included).
	Vocab int
	// EOS are all end tokens of the model.
	EOS []int32
	// Special reports control tokens, which XTC never removes. Nil: none.
	Special func(int32) bool
	// Encode turns text into ids, without special tokens; needed by logit_bias
	// and DRY breakers given as text. Piece gives a token's bytes for messages.
	Encode func(string) ([]int32, error)
	Piece  func(int32) []byte
	// Constraint limits what may come next; nil for none. A chain forks it with
	// itself.
	Constraint Constraint
	// Processor is the registered logits processor for the request's
	// custom_params; nil for none.
	Processor Processor
	// Pool shares scratch memory between chains; nil gives the chain its own.
	Pool *Pool
	// Reference switches fast paths off. The tokens are the same.
	Reference Reference
}

// Constraint is a decoding constraint, such as a grammar.
type Constraint interface {
	// Allowed sets the bits of the tokens that may come next in mask (bit i%64
	// of word i/64), which is all zero when it is called.
	Allowed(mask []uint64) error
	// Accept advances by an emitted token.
	Accept(token int32)
	// Fork returns an independent copy.
	Fork() Constraint
}

// Processor changes logits in place between bias and penalties. It must be a
// pure function of its arguments (and of the custom_params it was made for):
// a drafter's tentative copies call it too. output is the sequence's output.
type Processor interface {
	Process(logits []float32, output []int32) error
}

// Reference selects the plain paths that the fast ones are checked against.
type Reference struct {
	// PlainNoise evaluates the noise of every survivor instead of only of those
	// that can still win.
	PlainNoise bool
	// Sort sorts the vocabulary instead of searching pivots.
	Sort bool
}

// ReferenceFromEnv reads SURMISE_SAMPLING_GUMBEL and
// SURMISE_SAMPLING_REJECTION, of which "0" switches to the plain path.
func ReferenceFromEnv(getenv func(string) string) Reference {
	return Reference{
		PlainNoise: getenv("SURMISE_SAMPLING_GUMBEL") == "0",
		Sort:       getenv("SURMISE_SAMPLING_REJECTION") == "0",
	}
}

// Pool keeps scratch memory (about 36 bytes per token of the vocabulary) and
// released chains for reuse. It is safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	scratch []*scratch
	chains  []*Chain
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{} }

func (p *Pool) get(n int) *scratch {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.scratch) - 1; i >= 0; i-- {
		if s := p.scratch[i]; len(s.z) == n {
			last := len(p.scratch) - 1
			p.scratch[i] = p.scratch[last]
			p.scratch = p.scratch[:last]
			return s
		}
	}
	return newScratch(n)
}

func (p *Pool) put(s *scratch) {
	p.mu.Lock()
	p.scratch = append(p.scratch, s)
	p.mu.Unlock()
}

func (p *Pool) getChain() *Chain {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.chains); n > 0 {
		c := p.chains[n-1]
		p.chains = p.chains[:n-1]
		return c
	}
	return &Chain{}
}

func (p *Pool) putChain(c *Chain) {
	p.mu.Lock()
	p.chains = append(p.chains, c)
	p.mu.Unlock()
}
