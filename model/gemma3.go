package model

import "surmise/compute"

// gemma3 is Gemma 3 (text). Each half of a block is normed before and after;
// query and key heads are normed before they are turned; most layers slide and
// turn by a base of their own. Embeddings are multiplied by √hidden.
//
//	x = x + norm(out(attention(rotate(norm(q), norm(k)), v)))    of norm(x)
//	x = x + norm(down(gelu(gate)·up))                            of norm(x)
type gemma3 struct{ layers []gemma3Layer }

type gemma3Layer struct {
	inputNorm    compute.Buffer // [hidden]
	qkv          compute.Linear // [(heads + 2·kvHeads)·headDim, hidden]
	qNorm        compute.Buffer // [headDim], the same for every head
	kNorm        compute.Buffer // [headDim]
	out          compute.Linear // [hidden, heads·headDim]
	postAttnNorm compute.Buffer // [hidden]
	preFFNNorm   compute.Buffer // [hidden]
	gateUp       compute.Linear // [2·ffn, hidden]
	down         compute.Linear // [hidden, ffn]
	postFFNNorm  compute.Buffer // [hidden]
}

func loadGemma3(ld *loader) architecture {
	a := &gemma3{layers: make([]gemma3Layer, ld.cfg.Layers)}
	hidden, headDim := ld.cfg.HiddenSize, ld.cfg.HeadDim
	for l := range a.layers {
		a.layers[l] = gemma3Layer{
			inputNorm: ld.norm(block(l, "input_layernorm.weight"), hidden),
			qkv: ld.linear(
				ld.projection(block(l, "self_attn.q_proj")),
				ld.projection(block(l, "self_attn.k_proj")),
				ld.projection(block(l, "self_attn.v_proj"))),
			qNorm:        ld.norm(block(l, "self_attn.q_norm.weight"), headDim),
			kNorm:        ld.norm(block(l, "self_attn.k_norm.weight"), headDim),
			out:          ld.linear(ld.projection(block(l, "self_attn.o_proj"))),
			postAttnNorm: ld.norm(block(l, "post_attention_layernorm.weight"), hidden),
			preFFNNorm:   ld.norm(block(l, "pre_feedforward_layernorm.weight"), hidden),
			gateUp: ld.linear(
				ld.projection(block(l, "mlp.gate_proj")),
				ld.projection(block(l, "mlp.up_proj"))),
			down:        ld.linear(ld.projection(block(l, "mlp.down_proj"))),
			postFFNNorm: ld.norm(block(l, "post_feedforward_layernorm.weight"), hidden),
		}
	}
	return a
}

func (a *gemma3) block(p *pass, l int) {
	w := &a.layers[l]

	p.norm(p.normed, p.x, w.inputNorm)
	p.linear(p.qkv, w.qkv, p.normed)
	p.norm(p.q, p.q, w.qNorm)
	p.norm(p.k, p.k, w.kNorm)
	p.attend(l)
	p.linear(p.normed, w.out, p.attn)
	p.norm(p.normed, p.normed, w.postAttnNorm)
	p.addTo(p.x, p.normed)

	p.norm(p.normed, p.x, w.preFFNNorm)
	p.linear(p.gateUp, w.gateUp, p.normed)
	p.activate(compute.GELUTanh)
	p.linear(p.normed, w.down, p.gate)
	p.norm(p.normed, p.normed, w.postFFNNorm)
	p.addTo(p.x, p.normed)
}
