package model

import "surmise/compute"

// qwen3 is Qwen 3: a pre-norm decoder whose query and key heads are each
// normalized before they are turned.
//
//	x = x + out(attention(rotate(norm(q), norm(k)), v))    of norm(x)
//	x = x + down(silu(gate)·up)                            of norm(x)
type qwen3 struct{ layers []qwen3Layer }

type qwen3Layer struct {
	inputNorm compute.Buffer // [hidden]
	qkv       compute.Linear // [(heads + 2·kvHeads)·headDim, hidden]
	qNorm     compute.Buffer // [headDim], the same for every head
	kNorm     compute.Buffer // [headDim]
	out       compute.Linear // [hidden, heads·headDim]
	postNorm  compute.Buffer // [hidden]
	gateUp    compute.Linear // [2·ffn, hidden]
	down      compute.Linear // [hidden, ffn]
}

func loadQwen3(ld *loader) architecture {
	a := &qwen3{layers: make([]qwen3Layer, ld.cfg.Layers)}
	hidden, headDim := ld.cfg.HiddenSize, ld.cfg.HeadDim
	for l := range a.layers {
		a.layers[l] = qwen3Layer{
			inputNorm: ld.norm(block(l, "input_layernorm.weight"), hidden),
			qkv: ld.linear(
				ld.projection(block(l, "self_attn.q_proj")),
				ld.projection(block(l, "self_attn.k_proj")),
				ld.projection(block(l, "self_attn.v_proj"))),
			qNorm:    ld.norm(block(l, "self_attn.q_norm.weight"), headDim),
			kNorm:    ld.norm(block(l, "self_attn.k_norm.weight"), headDim),
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

func (a *qwen3) block(p *pass, l int) {
	w := &a.layers[l]

	p.norm(p.normed, p.x, w.inputNorm)
	p.linear(p.qkv, w.qkv, p.normed)
	p.norm(p.q, p.q, w.qNorm)
	p.norm(p.k, p.k, w.kNorm)
	p.attend(l)
	p.linear(p.normed, w.out, p.attn)
	p.addTo(p.x, p.normed)

	p.norm(p.normed, p.x, w.postNorm)
	p.linear(p.gateUp, w.gateUp, p.normed)
	p.activate(compute.SiLU)
	p.linear(p.normed, w.down, p.gate)
	p.addTo(p.x, p.normed)
}
