package model

import "surmise/compute"

// llama is the Llama family (Llama 2 and 3, SmolLM2) and Mistral, which differs
// in its configuration only: a sliding window on every layer, or none.
//
//	x = x + out(attention(rotate(q, k), v))    of norm(x)
//	x = x + down(silu(gate)·up)                of norm(x)
type llama struct{ layers []llamaLayer }

type llamaLayer struct {
	inputNorm compute.Buffer // [hidden]
	qkv       compute.Linear // [(heads + 2·kvHeads)·headDim, hidden]
	out       compute.Linear // [hidden, heads·headDim]
	postNorm  compute.Buffer // [hidden]
	gateUp    compute.Linear // [2·ffn, hidden]
	down      compute.Linear // [hidden, ffn]
}

func loadLlama(ld *loader) architecture {
	a := &llama{layers: make([]llamaLayer, ld.cfg.Layers)}
	hidden := ld.cfg.HiddenSize
	for l := range a.layers {
		a.layers[l] = llamaLayer{
			inputNorm: ld.norm(block(l, "input_layernorm.weight"), hidden),
			qkv: ld.linear(
				ld.rotated(block(l, "self_attn.q_proj")),
				ld.rotated(block(l, "self_attn.k_proj")),
				ld.projection(block(l, "self_attn.v_proj"))),
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

func (a *llama) block(p *pass, l int) {
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
