package model

import (
	"fmt"

	"surmise/checkpoint"
	"surmise/compute"
)

// loader takes tensors out of a checkpoint and onto a device. After the first
// error its methods do nothing and return nil, so that an architecture lists
// its tensors without a branch after each; err is looked at once, at the end.
type loader struct {
	dev      compute.Device
	ck       *checkpoint.Checkpoint
	cfg      *checkpoint.Config
	quantize checkpoint.Type // for float matrices; F32 keeps them
	progress func(done, total int64)

	done, total int64 // stored bytes
	bytes, macs int64 // of the linears loaded
	floatMACs   int64 // those of macs whose weights are floats
	err         error
}

// block is the name of a tensor of decoder block l.
func block(l int, name string) string { return fmt.Sprintf("model.layers.%d.%s", l, name) }

func (ld *loader) tensor(name string) *checkpoint.Tensor {
	if ld.err != nil {
		return nil
	}
	t, err := ld.ck.Tensor(name)
	ld.err = err
	return t
}

// norm loads a norm's weight [width]; zero-centred ones become 1 + w.
func (ld *loader) norm(name string, width int) compute.Buffer {
	t := ld.tensor(name)
	if ld.err != nil {
		return nil
	}
	if t.Rows() != 1 || t.Cols() != width {
		ld.err = fmt.Errorf("%s: tensor %q has shape %v, want [%d]", ld.ck.Path(), name, t.Shape, width)
		return nil
	}
	buf, err := ld.dev.Alloc(width)
	if err != nil {
		ld.err = fmt.Errorf("load %s: %w", name, err)
		return nil
	}
	w := buf.Host()
	t.Float32Row(0, w)
	if ld.cfg.NormPlusOne {
		for i := range w {
			w[i] = 1 + w[i]
		}
	}
	ld.report(t)
	return buf
}

// projection names a weight matrix, "….q_proj" for example, and takes its bias
// along where the checkpoint has one.
func (ld *loader) projection(name string) compute.LinearPart {
	return compute.LinearPart{Weight: ld.tensor(name + ".weight"), Bias: ld.optional(name + ".bias")}
}

// rotated is a projection onto heads that will be turned. Checkpoints that
// store pairs of rows side by side (GGUF of the llama family) get them back
// into the two halves that Program.Rotary pairs.
func (ld *loader) rotated(name string) compute.LinearPart {
	part := ld.projection(name)
	if ld.cfg.RopeInterleaved {
		part.Row = interleaved(ld.cfg.HeadDim)
	}
	return part
}

// interleaved maps an output row of the half-split order to the stored row.
func interleaved(headDim int) func(int) int {
	half := headDim / 2
	return func(row int) int {
		head, d := row/headDim, row%headDim
		return head*headDim + 2*(d%half) + d/half
	}
}

// biased is a projection, turned like rotated where rows are stored in pairs,
// whose bias must be there.
func (ld *loader) biased(name string) compute.LinearPart {
	part := ld.rotated(name)
	part.Bias = ld.tensor(name + ".bias")
	return part
}

func (ld *loader) optional(name string) *checkpoint.Tensor {
	if ld.err != nil {
		return nil
	}
	t, _ := ld.ck.Lookup(name)
	return t
}

// linear loads the parts as one matrix whose outputs lie side by side.
func (ld *loader) linear(parts ...compute.LinearPart) compute.Linear {
	if ld.err != nil {
		return nil
	}
	for i := range parts {
		if w := parts[i].Weight; w.Type.Float() && w.Cols()%ld.quantize.BlockSize() == 0 {
			parts[i].Quantize = ld.quantize
		}
	}
	w, err := ld.dev.LoadLinear(parts...)
	if err != nil {
		ld.err = fmt.Errorf("load %s: %w", parts[0].Weight.Name, err)
		return nil
	}
	ld.bytes += w.Bytes()
	ld.macs += w.MACs()
	for _, p := range parts {
		if p.StoredType().Float() {
			ld.floatMACs += int64(p.Weight.Rows()) * int64(p.Weight.Cols())
		}
		ld.report(p.Weight)
	}
	return w
}

// table loads a matrix of which rows are read.
func (ld *loader) table(name string) compute.Table {
	t := ld.tensor(name)
	if ld.err != nil {
		return nil
	}
	table, err := ld.dev.LoadTable(t)
	if err != nil {
		ld.err = fmt.Errorf("load %s: %w", name, err)
		return nil
	}
	return table
}

func (ld *loader) report(t *checkpoint.Tensor) {
	ld.done += int64(len(t.Data))
	if ld.progress != nil {
		ld.progress(min(ld.done, ld.total), ld.total)
	}
}
