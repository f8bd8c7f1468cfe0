"""Makes tiny random MTP and DFlash checkpoints with golden logits, as test data for the Go loaders.

    python make_fixtures.py REPOSITORY_ROOT

The logits come from the modules that training uses (model.py), in f32, from weights rounded to bf16. Every directory
holds a drafter checkpoint (config.json, model.safetensors) and golden.safetensors with inputs and expected outputs:

MTP     tokens [T], embedding [V, H] and head [V, H] of the target, hidden [T, H] of the target (in the form that the
        layout wants), logits [T-1, V]: row i is entry (tokens[i+1], hidden[i]) and predicts token i+2;
        chain_tokens [4] and chain_logits [4, V]: greedy chaining after the last token, row 0 is the last of logits,
        chain_tokens[i] its argmax, which the next row's entry consumes together with the head's own output state.
DFlash  tokens [T], embedding, head, hidden.N [T, H] for every tapped layer, context [T, H], and for each block start
        S in {5, 12}: logits.S [block, V] of the block that starts at S (tokens[S] is its first slot, context 0..S-1).
"""

import json
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from model import Config, DFlash, Layer, MTPHead, RMSNorm, rope_table

VOCAB, HIDDEN, TOKENS, CHAIN = 96, 64, 14, 4


class DeepSeekHead(nn.Module):
    """DeepSeek-V3 / GLM-4.5 layout: eh_proj([enorm(e) ; hnorm(h)]), state before shared_head.norm is chained."""

    def __init__(self, c, rotary):
        super().__init__()
        self.config, self.rotary = c, rotary
        self.enorm, self.hnorm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)
        self.eh_proj = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.layer = Layer(c, rotary=rotary)
        self.norm = RMSNorm(HIDDEN)

    def step(self, e, h, start, past):
        """(state for the head, state to chain, cache)."""
        x = self.eh_proj(torch.cat([self.enorm(e), self.hnorm(h)], -1))
        y, kv = self.layer(x, fixture_rope(self.config, start, x.shape[1], self.rotary), past=past)
        return self.norm(y), y, kv

    def tensors(self, n):
        """Names of layer n, which follows the target's n layers."""
        p = f"model.layers.{n}."
        out = {p + k.removeprefix("layer."): v for k, v in self.state_dict().items() if not k.startswith("norm.")}
        return out | {p + "shared_head.norm.weight": self.norm.weight}


class MiMoHead(nn.Module):
    """MiMo layout: input_proj([hidden_layernorm(h) ; token_layernorm(e)]) over a Qwen2 layer."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.token_layernorm, self.hidden_layernorm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)
        self.input_proj = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.layer = Layer(c)
        self.final_layernorm = RMSNorm(HIDDEN)

    def step(self, e, h, start, past):
        """(state for the head, state to chain, cache)."""
        x = self.input_proj(torch.cat([self.hidden_layernorm(h), self.token_layernorm(e)], -1))
        y, kv = self.layer(x, fixture_rope(self.config, start, x.shape[1]), past=past)
        y = self.final_layernorm(y)
        return y, y, kv

    def tensors(self):
        """Names under model.mtp_layers.0."""
        return {"model.mtp_layers.0." + k.removeprefix("layer."): v for k, v in self.state_dict().items()}


class QwenHead(nn.Module):
    """MTPHead with the stepping interface of the others."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def step(self, e, h, start, past):
        """(state for the head, state to chain, cache)."""
        y, kv = self.head(e, h, torch.arange(start, start + e.shape[1]), past)
        return y, y, kv

    def tensors(self):
        """Names under mtp."""
        return {"mtp." + k: v for k, v in self.head.state_dict().items()}


def fixture_rope(c, start, n, rotary=None):
    """RoPE at positions start.., f32."""
    return rope_table(torch.arange(start, start + n), c.head_dim, c.rope_theta, torch.float32, rotary)


def randomize(module, seed):
    """Random weights of a useful size, exactly representable in bf16."""
    g = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        w = torch.randn(p.shape, generator=g)
        if p.dim() == 2:
            w *= 0.15
        elif name.endswith("bias"):
            w *= 0.3
        else:
            w = p.data + 0.3 * w
        p.data = w.bfloat16().float()


def target_parts(seed):
    """Tokens [T], embedding and head [V, H] of an imaginary target."""
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCAB, (TOKENS,), generator=g)
    embedding = (torch.randn(VOCAB, HIDDEN, generator=g) * 0.5).bfloat16().float()
    head = (torch.randn(VOCAB, HIDDEN, generator=g) * 0.5).bfloat16().float()
    return tokens, embedding, head, g


def base_config(c, **more):
    """config.json of the drafter's layer stack."""
    return {
        "hidden_size": HIDDEN, "intermediate_size": c.intermediate_size, "num_hidden_layers": c.num_hidden_layers,
        "num_attention_heads": c.num_attention_heads, "num_key_value_heads": c.num_key_value_heads,
        "head_dim": c.head_dim, "vocab_size": VOCAB, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
        "rope_theta": c.rope_theta, "hidden_act": "silu", "attention_bias": c.attention_bias,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    } | more


def write(folder, config, tensors, golden):
    """One fixture directory."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    save = lambda name, ts: save_file({k: v.detach().clone().contiguous() for k, v in ts.items()}, os.path.join(folder, name))
    save("model.safetensors", {k: v.bfloat16() for k, v in tensors.items()})
    save("golden.safetensors", golden)
    print(folder, sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)), "bytes")


@torch.no_grad()
def mtp_fixture(folder, head, seed, config, tensors, zero_first):
    """Teacher-forced and chained logits of an MTP head."""
    tokens, embedding, lm_head, g = target_parts(seed)
    hidden = torch.randn(TOKENS, HIDDEN, generator=g)
    e = embedding[tokens[1:]][None].clone()
    if zero_first:  # the entry of the first hidden (position 0) has no embedding in these layouts
        e[:, 0] = 0
    y, state, past = head.step(e, hidden[None, :-1], 0, None)
    logits = F.linear(y, lm_head)[0]
    chain_logits, chain_tokens = [logits[-1]], [int(logits[-1].argmax())]
    state = state[:, -1:]
    for i in range(1, CHAIN):
        y, state, past = head.step(embedding[chain_tokens[-1:]][None], state, TOKENS - 2 + i, past)
        chain_logits.append(F.linear(y, lm_head)[0, 0])
        chain_tokens.append(int(chain_logits[-1].argmax()))
    golden = {
        "tokens": tokens, "hidden": hidden, "embedding": embedding, "head": lm_head, "logits": logits,
        "chain_tokens": torch.tensor(chain_tokens), "chain_logits": torch.stack(chain_logits),
    }
    write(folder, config, tensors, golden)


@torch.no_grad()
def dflash_fixture(folder, seed):
    """A DFlash drafter with one full and one sliding (hence causal) layer, block 4."""
    c = Config(HIDDEN, 2, 2, 1, 32, 64, VOCAB)
    layer_types = ["full_attention", "sliding_attention"]
    mask_token, taps, block, window = VOCAB - 1, (1, 4), 4, 6
    d = DFlash(c, HIDDEN, taps, block, mask_token, layer_types, window)
    randomize(d, seed)
    tokens, embedding, lm_head, g = target_parts(seed + 1)
    hidden = [torch.randn(TOKENS, HIDDEN, generator=g) for _ in taps]
    context = d.context([h[None] for h in hidden])
    golden = {"tokens": tokens, "embedding": embedding, "head": lm_head, "context": context[0]}
    golden |= {f"hidden.{l}": h for l, h in zip(taps, hidden)}
    for start in (5, 12):
        y = d(context, torch.tensor([start]), embedding[tokens[start]][None, None], embedding[mask_token])
        golden[f"logits.{start}"] = F.linear(y, lm_head)[0, 0]
    config = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"} | base_config(
        c, block_size=block, layer_types=layer_types, sliding_window=window, use_sliding_window=True,
        num_target_layers=6, dflash_config={"target_layer_ids": list(taps), "mask_token_id": mask_token},
    )
    write(folder, config, d.state_dict(), golden)


def main(root):
    """All fixtures."""
    at = lambda *p: os.path.join(root, *p)
    plain = Config(HIDDEN, 1, 2, 1, 32, 96, VOCAB)

    head = QwenHead(MTPHead(plain))
    randomize(head, 11)
    config = {"architectures": ["Qwen3MTP"], "model_type": "qwen3_mtp"}
    config |= base_config(plain, num_nextn_predict_layers=1)
    mtp_fixture(at("mtp/testdata/qwen3_plain"), head, 12, config, head.tensors(), False)

    head = QwenHead(MTPHead(plain, gated=True, unit_offset=True, rotary=8))
    randomize(head, 21)
    config = {"architectures": ["Qwen3_5MTP"], "model_type": "qwen3_5_mtp"}
    config |= base_config(plain, mtp_num_hidden_layers=1, attn_output_gate=True, partial_rotary_factor=0.25)
    mtp_fixture(at("mtp/testdata/qwen3_5"), head, 22, config, head.tensors(), False)

    c = Config(HIDDEN, 2, 2, 1, 32, 96, VOCAB, attention_bias=True)
    head = DeepSeekHead(c, rotary=16)
    randomize(head, 31)
    config = {"architectures": ["Glm4MoeMTPModel"], "model_type": "glm4_moe_mtp"}
    config |= base_config(c, num_nextn_predict_layers=1, use_qk_norm=True, partial_rotary_factor=0.5)
    mtp_fixture(at("mtp/testdata/glm4_dense"), head, 32, config, head.tensors(2), True)

    c = Config(HIDDEN, 2, 2, 1, 32, 96, VOCAB, attention_bias=True, qk_norm=False)
    head = MiMoHead(c)
    randomize(head, 41)
    config = {"architectures": ["MiMoMTPModel"], "model_type": "mimo_mtp"}
    config |= base_config(c, num_nextn_predict_layers=1)
    mtp_fixture(at("mtp/testdata/mimo"), head, 42, config, head.tensors(), True)

    dflash_fixture(at("dflash/testdata/tiny"), 51)


if __name__ == "__main__":
    main(sys.argv[1])
