"""The models of the demo family, with the parameter names of their public checkpoint layouts.

`CausalLM` is Qwen3 (RMSNorm, grouped-query attention with q/k norms, rotate-half RoPE, SwiGLU, tied head), so its
state_dict is a Hugging Face Qwen3 checkpoint as it stands. `MTPHead` and `DFlash` are built from the same layers.
Shapes in comments: B rows, T tokens, H hidden, N heads, D head width. Computation follows the dtype of the weights, or
bf16 under autocast; norms and softmax are always f32.
"""

import dataclasses
import json
import math
import os

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Config:
    """The fields of a Qwen3 config.json that matter here, under its names."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int = 4096
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 1024
    qk_norm: bool = True
    attention_bias: bool = False

    @classmethod
    def load(cls, folder):
        """Reads config.json, old style (rope_theta on top) or new (rope_parameters)."""
        with open(os.path.join(folder, "config.json")) as f:
            raw = json.load(f)
        raw.setdefault("rope_theta", (raw.get("rope_parameters") or {}).get("rope_theta", 10000.0))
        raw.setdefault("head_dim", raw["hidden_size"] // raw["num_attention_heads"])
        return cls(**{f.name: raw[f.name] for f in dataclasses.fields(cls) if f.name in raw})


class RMSNorm(nn.Module):
    """w * x / rms(x), computed in f32. unit_offset: weights are stored zero-centred (1 + w), as in Qwen3.5 files."""

    def __init__(self, width, eps=1e-6, unit_offset=False):
        super().__init__()
        self.eps, self.unit_offset = eps, unit_offset
        self.weight = nn.Parameter(torch.zeros(width) if unit_offset else torch.ones(width))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        w = 1 + self.weight if self.unit_offset else self.weight
        return (y * w.float()).to(x.dtype)


def rope_table(positions, head_dim, theta, dtype, rotary=None):
    """cos and sin [T, rotary/2] for rotate-half RoPE at integer positions [T]."""
    rotary = rotary or head_dim
    inv = theta ** (-torch.arange(0, rotary, 2, device=positions.device).float() / rotary)
    angle = positions.float()[:, None] * inv
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, rope):
    """Rotates the first 2*len(cos) channels of x [B, N, T, D]; the rest passes."""
    cos, sin = rope
    r = 2 * cos.shape[-1]
    a, b = x[..., : r // 2], x[..., r // 2 : r]
    out = [a * cos - b * sin, b * cos + a * sin]
    if r < x.shape[-1]:
        out.append(x[..., r:])
    return torch.cat(out, -1)


def attend(q, k, v, mask=None, causal=False):
    """Softmax attention of q [B, N, T, D] over k, v [B, NKV, S, D]; mask [T, S] is added (0 or -inf)."""
    repeat = q.shape[1] // k.shape[1]
    if k.shape[2] > 512 and q.shape[2] > 1:  # PyTorch's fused kernel pays on a CPU only for long rows
        if mask is not None:
            mask = mask.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=repeat > 1)
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    if causal:
        mask = torch.full((q.shape[2], k.shape[2]), float("-inf"), device=q.device).triu(1)
    s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if mask is not None:
        s = s + mask.to(s.dtype)
    return torch.softmax(s, -1) @ v


class Attention(nn.Module):
    """Grouped-query attention, optionally with q/k norms, biases, or Qwen3.5's output gate packed in q_proj."""

    def __init__(self, c, gated=False, unit_offset=False, rotary=None):
        super().__init__()
        self.n, self.nkv, self.d = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.gated = gated
        self.q_proj = nn.Linear(c.hidden_size, self.n * self.d * (2 if gated else 1), bias=c.attention_bias)
        self.k_proj = nn.Linear(c.hidden_size, self.nkv * self.d, bias=c.attention_bias)
        self.v_proj = nn.Linear(c.hidden_size, self.nkv * self.d, bias=c.attention_bias)
        self.o_proj = nn.Linear(self.n * self.d, c.hidden_size, bias=False)
        if c.qk_norm:
            self.q_norm = RMSNorm(self.d, c.rms_norm_eps, unit_offset)
            self.k_norm = RMSNorm(self.d, c.rms_norm_eps, unit_offset)
        else:
            self.q_norm = self.k_norm = nn.Identity()

    def queries(self, u, rope):
        """q [B, N, T, D] and the output gate [B, T, N*D] or None."""
        b, t = u.shape[:2]
        q, gate = self.q_proj(u), None
        if self.gated:  # per head: [q | gate]
            q, gate = q.view(b, t, self.n, 2 * self.d).chunk(2, -1)
            gate = gate.reshape(b, t, self.n * self.d)
        q = self.q_norm(q.view(b, t, self.n, self.d)).transpose(1, 2)
        return rotate(q, rope), gate

    def keys_values(self, u, rope):
        """k and v [B, NKV, T, D] of normed inputs u [B, T, H]."""
        b, t = u.shape[:2]
        k = self.k_norm(self.k_proj(u).view(b, t, self.nkv, self.d)).transpose(1, 2)
        return rotate(k, rope), self.v_proj(u).view(b, t, self.nkv, self.d).transpose(1, 2)

    def output(self, a, gate=None):
        """Projects attention results [B, N, T, D] back to [B, T, H]."""
        b, _, t, _ = a.shape
        a = a.transpose(1, 2).reshape(b, t, self.n * self.d)
        return self.o_proj(a if gate is None else a * torch.sigmoid(gate))


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, c, **attention):
        super().__init__()
        off = attention.get("unit_offset", False)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps, off)
        self.self_attn = Attention(c, **attention)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps, off)
        self.mlp = MLP(c)

    def forward(self, h, rope, mask=None, past=None, causal=True):
        """Returns (h [B, T, H], (k, v) of everything attended). past = (k, v) comes before this call's tokens."""
        u = self.input_layernorm(h)
        q, gate = self.self_attn.queries(u, rope)
        k, v = self.self_attn.keys_values(u, rope)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        # With a past and one query, everything may be seen; more queries need an explicit mask.
        a = attend(q, k, v, mask, causal and mask is None and q.shape[2] == k.shape[2])
        return self.finish(h, a, gate), (k, v)

    def finish(self, h, a, gate=None):
        """Everything after the attention: output projection and MLP with their residual adds."""
        h = h + self.self_attn.output(a, gate)
        return h + self.mlp(self.post_attention_layernorm(h))


class Stack(nn.Module):
    """Embedding, layers and final norm: the part of a checkpoint under `model.`."""

    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)


class CausalLM(nn.Module):
    """A Qwen3 model with a tied head."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.model = Stack(c)
        init(self, c.num_hidden_layers)

    def hidden(self, x, taps=()):
        """Final normed hidden [B, T, H] and the outputs of the layers in taps (0-based, before the final norm)."""
        h, c, out = self.embed(x), self.config, []
        rope = rope_table(torch.arange(x.shape[1], device=x.device), c.head_dim, c.rope_theta, h.dtype)
        for i, layer in enumerate(self.model.layers):
            h, _ = layer(h, rope)
            if i in taps:
                out.append(h)
        return self.model.norm(h), out

    def embed(self, x):
        """Embeddings [B, T, H] in the computation dtype."""
        return self.model.embed_tokens(x).to(compute_dtype(self.model.embed_tokens.weight))

    def head(self, h):
        """Logits [B, T, V]."""
        return F.linear(h, self.model.embed_tokens.weight.to(h.dtype))

    def forward(self, x):
        return self.head(self.hidden(x)[0])


class MTPHead(nn.Module):
    """A multi-token-prediction head in the Qwen3.5 / Qwen3-Next layout; tensors are stored under `mtp.`.

    Entry p consumes the token x_p and the target's final normed hidden h_{p-1}: x = fc([norm_e(e) ; norm_h(h)]).
    The layer attends over earlier entries; norm(layer(x)) gives the logits of token p+1 through the target's head and
    is the h of the next chained entry. Embedding and head belong to the target.
    """

    def __init__(self, c, **attention):
        super().__init__()
        self.config = c
        off = attention.get("unit_offset", False)
        self.fc = nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.pre_fc_norm_embedding = RMSNorm(c.hidden_size, c.rms_norm_eps, off)
        self.pre_fc_norm_hidden = RMSNorm(c.hidden_size, c.rms_norm_eps, off)
        self.layers = nn.ModuleList([Layer(c, **attention)])
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps, off)
        self.rotary = attention.get("rotary")
        init(self, 1)

    def rope(self, positions, dtype):
        """The head's rotation at positions [T]."""
        return rope_table(positions, self.config.head_dim, self.config.rope_theta, dtype, self.rotary)

    def inputs(self, e, h):
        """Layer inputs [B, T, H] from embeddings of the tokens and hiddens of the positions before them."""
        return self.fc(torch.cat([self.pre_fc_norm_embedding(e), self.pre_fc_norm_hidden(h)], -1))

    def forward(self, e, h, positions, past=None):
        """Entries after past (or from the start): their normed outputs [B, T, H] and the new (k, v)."""
        x = self.inputs(e, h)
        y, kv = self.layers[0](x, self.rope(positions, x.dtype), past=past)
        return self.norm(y), kv

    def chain(self, e, h, depth):
        """Outputs of `depth` chained steps for every start at once, exactly as inference sees them.

        e [B, T, H] embeds tokens 1..T, h [B, T, H] is the target's hidden of tokens 0..T-1. Returns a list; item j
        [B, T-j, H] predicts token p+1 from entry p = j+1.., with the entries of the last j tokens made from the
        head's own outputs and all earlier ones from the target's hiddens.
        """
        layer, at = self.layers[0], self.layers[0].self_attn
        t = e.shape[1]
        outs, keys, values = [], [], []
        for j in range(depth):
            n = t - j
            x = self.inputs(e[:, j:], h)
            u = layer.input_layernorm(x)
            rope = self.rope(torch.arange(j, t, device=e.device), x.dtype)
            q, gate = at.queries(u, rope)
            k, v = at.keys_values(u, rope)
            keys.append(k)
            values.append(v)
            if j == 0:
                a = attend(q, k, v, causal=True)
            else:
                seen = torch.full((n, n), float("-inf"), device=e.device).triu(1)
                a = attend_chained(q, [k[:, :, :n] for k in keys], [v[:, :, :n] for v in values], seen)
            y = self.norm(layer.finish(x, a, gate))
            outs.append(y)
            h = y[:, :-1]
        return outs


def attend_chained(q, keys, values, mask):
    """Attention of chains that start from one stream: query i [B, N, A, D] of a chain's newest step sees the true
    entries keys[0] [B, NKV, S, D] that mask [A, S] allows, and of each chained step keys[m] [B, NKV, A, D] its own.
    """
    repeat = q.shape[1] // keys[0].shape[1]
    keys = [k.repeat_interleave(repeat, 1) for k in keys]
    values = [v.repeat_interleave(repeat, 1) for v in values]
    s = keys[0].shape[2]
    true = (q @ keys[0].transpose(-1, -2)).float() + mask
    own = [(q * k).sum(-1, keepdim=True).float() for k in keys[1:]]
    p = torch.softmax(torch.cat([true, *own], -1) * q.shape[-1] ** -0.5, -1).to(q.dtype)
    a = p[..., :s] @ values[0]
    for m, v in enumerate(values[1:]):
        a = a + p[..., s + m : s + m + 1] * v
    return a


class DFlash(nn.Module):
    """A block drafter in the published DFlash layout.

    Context c_p = hidden_norm(fc(outputs of the tapped target layers at p)). A block starts from the target's
    embeddings of [last token, MASK, ...]; every layer attends from the block to the context before it and to the
    block itself. Slot i predicts the token at block start + i; slot 0 is the known token.
    """

    def __init__(self, c, target_hidden, taps, block, mask_token, layer_types=None, window=0, causal=None):
        super().__init__()
        self.config, self.taps, self.block, self.mask_token = c, tuple(taps), block, mask_token
        self.layer_types = layer_types or ["full_attention"] * c.num_hidden_layers
        self.window, self.causal = window, causal
        self.fc = nn.Linear(len(taps) * target_hidden, c.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        init(self, c.num_hidden_layers)

    def context(self, taps):
        """c [B, T, H] of tapped target hiddens, each [B, T, H_target]."""
        return self.hidden_norm(self.fc(torch.cat(taps, -1)))

    def masks(self, layer, starts, length):
        """Additive masks of one layer for blocks that start at `starts` [A]: over the context [A*block, length] and
        inside a block [block, block].

        A sliding layer sees keys at most window-1 positions back and, unless is_causal says otherwise, is causal.
        """
        sliding = self.layer_types[layer] == "sliding_attention"
        causal = self.causal if self.causal is not None else sliding
        dev = starts.device
        slot = torch.arange(self.block, device=dev)
        at = (starts[:, None] + slot).reshape(-1)
        context = torch.arange(length, device=dev)
        ok = context[None] < starts.repeat_interleave(self.block)[:, None]
        own = torch.ones(self.block, self.block, dtype=torch.bool, device=dev)
        if causal:
            own &= slot[None] <= slot[:, None]
        if sliding:
            ok &= at[:, None] - context[None] < self.window
            own &= slot[:, None] - slot[None] < self.window
        zero = lambda m: torch.zeros(m.shape, device=dev).masked_fill(~m, float("-inf"))
        return zero(ok), zero(own)

    def forward(self, c, starts, first, mask_embedding):
        """Normed outputs [B, A, block, H] of A independent blocks per row.

        c [B, T, H] context, starts [A] block starts (shared by the rows), first [B, A, H] embeddings of the tokens at
        the starts, mask_embedding [H].
        """
        b, a, hidden = first.shape
        x = torch.cat([first[:, :, None], mask_embedding.to(first.dtype).expand(b, a, self.block - 1, hidden)], 2)
        x = x.reshape(b, a * self.block, hidden)
        cfg = self.config
        at = (starts[:, None] + torch.arange(self.block, device=c.device)).reshape(-1)
        rope = rope_table(at, cfg.head_dim, cfg.rope_theta, x.dtype)
        rope_c = rope_table(torch.arange(c.shape[1], device=c.device), cfg.head_dim, cfg.rope_theta, x.dtype)
        for i, layer in enumerate(self.layers):
            context = layer.self_attn.keys_values(c, rope_c)
            u = layer.input_layernorm(x)
            q, _ = layer.self_attn.queries(u, rope)
            own = layer.self_attn.keys_values(u, rope)
            x = layer.finish(x, self._attend(q, context, own, *self.masks(i, starts, c.shape[1])))
        return self.norm(x).view(b, a, self.block, hidden)

    def _attend(self, q, context, own, context_mask, own_mask):
        """Attention of blocks to the context and to themselves, without the products between blocks."""
        b, n, t, d = q.shape
        repeat = n // own[0].shape[1]
        (kc, vc), (k, v) = ((x.repeat_interleave(repeat, 1) for x in kv) for kv in (context, own))
        blocks = lambda x: x.reshape(b, n, t // self.block, self.block, d)
        far = (q @ kc.transpose(-1, -2)).float() + context_mask
        near = (blocks(q) @ blocks(k).transpose(-1, -2)).float() + own_mask
        p = torch.cat([far, near.view(b, n, t, self.block)], -1) * d**-0.5
        p = torch.softmax(p, -1).to(q.dtype)
        length = kc.shape[2]
        mine = p[..., length:].reshape(b, n, t // self.block, self.block, self.block) @ blocks(v)
        return p[..., :length] @ vc + mine.view(b, n, t, d)


def init(module, layers):
    """Normal(0, 0.02) matrices, residual outputs scaled down by depth; norms stay at one."""
    for name, p in module.named_parameters():
        if p.dim() == 2:
            deep = name.endswith(("o_proj.weight", "down_proj.weight"))
            nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * layers) if deep else 0.02)


def compute_dtype(weight):
    """bf16 under autocast, else the weights' own dtype."""
    return torch.bfloat16 if torch.is_autocast_enabled(weight.device.type) else weight.dtype
