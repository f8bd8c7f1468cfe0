package model

import (
	"fmt"

	"surmise/compute"
	"surmise/kvcache"
)

// Target is a model whose word counts: what a drafter proposes is checked
// against it. It is used by one goroutine at a time, like its device.
type Target interface {
	// Spec says what the target is.
	Spec() Spec
	// Device is where it runs.
	Device() compute.Device
	// Cache is where its sequences live; rows of a Forward are sequences of it.
	Cache() *kvcache.Cache
	// Forward appends each row's tokens to its sequence, computes them, and
	// leaves the outputs in b until the next Forward. Tokens may be any number.
	// On error, every sequence has the length it had before; an error that
	// concerns one row is a *RowError.
	Forward(b *Batch) error
	// Embedding is the token embedding [vocab, hidden], unscaled.
	Embedding() compute.Table
	// EmbedScale is what embeddings are multiplied by (1 for most).
	EmbedScale() float32
	// Head maps a final hidden state to logits: [vocab, hidden].
	Head() compute.Linear
	// Close gives back what the target holds. The device and the checkpoint
	// stay open; they are the caller's.
	Close() error
}

// Spec describes a target.
type Spec struct {
	Architecture string // "llama", "qwen2", "qwen3", "gemma3"
	ModelType    string // as the checkpoint has it, e.g. "mistral"
	Vocab        int    // logits per position
	Hidden       int    // width of the residual stream
	Layers       int
	Heads        int // query heads
	KVHeads      int
	HeadDim      int
	FFN          int     // width of the gated feed-forward
	Context      int     // positions a sequence may have, as opened
	Trained      int     // positions the checkpoint promises
	RMSEps       float64 // of the norms
	Windows      []int   // by layer: how many positions a row sees; 0 is all
	BOS          int     // −1 when the checkpoint names none
	EOS          []int   // every token that ends a text
	KV           compute.KVType
	Bytes        int64 // weights that one forward reads
	MACs         int64 // multiply-adds for one row with logits, attention apart
	FloatMACs    int64 // those of MACs whose weights are floats
}

// Batch is the rows of one Forward. It may be used again and again.
type Batch struct {
	Rows []Row
	// Hidden lists the layers whose hidden states are wanted for every token:
	// l is the output of block l (0-based, after both residual additions), and
	// Spec.Layers is the state after the final norm.
	Hidden []int
	// Results is set by Forward; read it through the methods.
	Results Results
}

// Row is a run of tokens that continues a sequence.
type Row struct {
	Seq    *kvcache.Seq
	Tokens []int32 // at least one; Forward appends them to Seq
	Logits int     // how many of the last tokens outputs are wanted for
	// ArgmaxOnly says that Argmax will be asked for and Logits will not.
	ArgmaxOnly bool
}

// Results is where a Target keeps what the methods of Batch hand out.
type Results interface {
	Logits(row, i int) []float32
	Argmax(row, i int) (token int32, ok bool)
	Hidden(row, index int) compute.View
}

// Logits are the scores [vocab] after wanted token i of a row; i = 0 is the
// first of the Row.Logits wanted ones. The slice is only to be read, and valid
// until the next Forward. It is nil for a row that is ArgmaxOnly.
func (b *Batch) Logits(row, i int) []float32 { return b.Results.Logits(row, i) }

// Argmax is the token with the greatest logit after wanted token i of a row,
// the lowest of equals; ok is false when the logits hold a NaN.
func (b *Batch) Argmax(row, i int) (token int32, ok bool) { return b.Results.Argmax(row, i) }

// HiddenOf are the hidden states [tokens, hidden] of all of a row's tokens at
// layer Batch.Hidden[index], valid until the next Forward.
func (b *Batch) HiddenOf(row, index int) compute.View { return b.Results.Hidden(row, index) }

// RowError is an error that one row of a batch has brought about.
type RowError struct {
	Row int
	Err error
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

// Unwrap is the error without the row.
func (e *RowError) Unwrap() error { return e.Err }
