package model

import "surmise/compute"

// qwen2 is Qwen 2 and 2.5: a pre-norm decoder like Llama's, with biases on the
// query, key and value projections.
//
//	x = x + out(attention(rotate(q + bq, k + bk), v + bv))    of norm(x)
//	x = x + down(silu(gate)·up)                               of norm(x)
type qwen2 struct{ layers []qwen2Layer }

type qwen2Layer struct {
	inputNorm compute.Buffer // [hidden]
	qkv       compute.Linear // [(heads + 2·kvHeads)·headDim, hidden], with bias
	out       compute.Linear // [hidden, heads·headDim]
	postNorm  compute.Buffer // [hidden]
	gateUp    compute.Linear // [2·ffn, hidden]
	down      compute.Linear // [hidden, ffn]
}

func loadQwen2(ld *loader) architecture {
	a := &qwen2{layers: make([]qwen2Layer, ld.cfg.Layers)}
	hidden := ld.cfg.HiddenSize
	for l := range a.layers {
		a.layers[l] = qwen2Layer{
			inputNorm: ld.norm(block(l, "input_layernorm.weight"), hidden),
			qkv: ld.linear(
				ld.biased(block(l, "self_attn.q_proj")),
				ld.biased(block(l, "self_attn.k_proj")),
				ld.biased(block(l, "self_attn.v_proj"))),
			out:      ld.linear(ld.projection(block(l, "self_attn.o_proj"))),
			postNorm: ld.norm(block(l, "post_attention_layernorm.weight"), hidden),
			gateUp: ld.linear(
				ld.projection(block(l, "mlp.gate_proj")),
				ld.projection(block(l, "mlp.up_proj"))),
			down: ld.linear(ld.projection(block(l, "mlp.down_proj"))),
		}
	}
	return a
}

func (a *qwen2) block(p *pass, l int) {
	w := &a.layers[l]

	p.norm(p.normed, p.x, w.inputNorm)
	p.linear(p.qkv, w.qkv, p.normed)
	p.attend(l)
	p.linear(p.normed, w.out, p.attn)
	p.addTo(p.x, p.normed)

	p.norm(p.normed, p.x, w.postNorm)
	p.linear(p.gateUp, w.gateUp, p.normed)
	p.activate(compute.SiLU)
	p.linear(p.normed, w.down, p.gate)
	p.addTo(p.x, p.normed)
}
