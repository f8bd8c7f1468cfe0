"""Frozen targets: the demo's own model, or any causal language model that Transformers can open.

Both answer the same calls: features(x, taps) -> (final normed hidden [B, T, H], tapped layer outputs), embed(x),
head(h), and step(...) for sampling.
"""

import json
import os

import torch
import torch.nn.functional as F

import common
import family
from model import CausalLM, Config, attend, rope_table


class Own:
    """A CausalLM, from a training checkpoint or a Qwen3 directory."""

    def __init__(self, module, device):
        self.module = module.to(device).eval().requires_grad_(False)
        self.config = module.config
        self.embedding = module.model.embed_tokens.weight

    def features(self, x, taps=()):
        """Hidden states of tokens x [B, T]."""
        with torch.no_grad():
            return self.module.hidden(x, taps)

    def embed(self, x):
        """Token embeddings."""
        return self.module.embed(x)

    def head(self, h):
        """Logits."""
        return self.module.head(h)

    def start(self, rows, length):
        """An empty cache for rows sequences of up to length tokens: (keys, values) per layer."""
        c = self.config
        shape = (c.num_hidden_layers, 2, rows, c.num_key_value_heads, length, c.head_dim)
        return torch.zeros(shape, dtype=self.module.embed(torch.zeros(1, 1, dtype=torch.long, device=self.embedding.device)).dtype,
                           device=self.embedding.device)

    @torch.no_grad()
    def step(self, x, cache, at):
        """Logits [B, V] after the tokens x [B, T], which follow the `at` tokens in the cache; T = 1 unless at = 0."""
        c = self.config
        h = self.module.embed(x)
        t = x.shape[1]
        rope = rope_table(torch.arange(at, at + t, device=x.device), c.head_dim, c.rope_theta, h.dtype)
        for i, layer in enumerate(self.module.model.layers):
            u = layer.input_layernorm(h)
            q, _ = layer.self_attn.queries(u, rope)
            k, v = layer.self_attn.keys_values(u, rope)
            cache[i, 0, :, :, at : at + t], cache[i, 1, :, :, at : at + t] = k, v
            if t == 1:
                a = attend_one(q, cache[i, 0, :, :, : at + 1], cache[i, 1, :, :, : at + 1])
            else:
                a = attend(q, k, v, causal=True)
            h = layer.finish(h, a)
        return self.head(self.module.model.norm(h[:, -1:]))[:, 0]


def attend_one(q, k, v):
    """Attention of one query per row, without copying the grouped keys and values."""
    b, n, _, d = q.shape
    q = q.view(b, k.shape[1], n // k.shape[1], d)
    p = torch.softmax((q @ k.transpose(-1, -2)) * d**-0.5, -1)
    return (p @ v).view(b, n, 1, d)


class HuggingFace:
    """Any AutoModelForCausalLM whose decoder layers are in model.layers and whose final norm is model.norm."""

    def __init__(self, folder, device):
        from transformers import AutoModelForCausalLM

        self.lm = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval().requires_grad_(False)
        c = self.lm.config
        self.config = Config(
            hidden_size=c.hidden_size,
            num_hidden_layers=c.num_hidden_layers,
            num_attention_heads=c.num_attention_heads,
            num_key_value_heads=getattr(c, "num_key_value_heads", None) or c.num_attention_heads,
            head_dim=getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads,
            intermediate_size=c.intermediate_size,
            vocab_size=c.vocab_size,
            rope_theta=getattr(c, "rope_theta", None) or (getattr(c, "rope_parameters", None) or {}).get("rope_theta", 1e4),
            rms_norm_eps=getattr(c, "rms_norm_eps", 1e-6),
            max_position_embeddings=c.max_position_embeddings,
        )
        self.embedding = self.lm.get_input_embeddings().weight

    def features(self, x, taps=()):
        """Hidden states; tapped layers by hooks, because hidden_states[-1] of Transformers is already normed."""
        seen = {}
        hooks = []
        for l in taps:
            keep = lambda _m, _i, out, l=l: seen.__setitem__(l, out[0] if isinstance(out, tuple) else out)
            hooks.append(self.lm.model.layers[l].register_forward_hook(keep))
        try:
            with torch.no_grad():
                h = self.lm.model(input_ids=x, use_cache=False).last_hidden_state
        finally:
            for hook in hooks:
                hook.remove()
        return h, [seen[l] for l in taps]

    def embed(self, x):
        """Token embeddings."""
        return F.embedding(x, self.embedding)

    def head(self, h):
        """Logits."""
        return self.lm.get_output_embeddings()(h)

    def start(self, rows, length):
        """Transformers makes its own cache."""
        return {}

    @torch.no_grad()
    def step(self, x, cache, at):
        """Logits [B, V] after x, which follows what the cache holds."""
        out = self.lm(input_ids=x, past_key_values=cache.get("past"), use_cache=True)
        cache["past"] = out.past_key_values
        return out.logits[:, -1]


def load(path, device):
    """A target from a training checkpoint (.pt of the demo target) or a Hugging Face directory."""
    if path.endswith(".pt"):
        module = CausalLM(Config(**family.TARGET))
        common.fill(module, path)
        return Own(module, device)
    with open(os.path.join(path, "config.json")) as f:
        raw = json.load(f)
    single = os.path.join(path, "model.safetensors")
    if raw.get("model_type") == "qwen3" and raw.get("tie_word_embeddings") and os.path.exists(single):
        return Own(load_qwen3(path), device)
    return HuggingFace(path, device)


def load_qwen3(path):
    """A CausalLM in f32 from a tied Qwen3 directory of one file."""
    from safetensors.torch import load_file

    module = CausalLM(Config.load(path))
    tensors = {n: t.float() for n, t in load_file(os.path.join(path, "model.safetensors")).items()}
    module.load_state_dict({n: t for n, t in tensors.items() if n != "lm_head.weight"})
    return module
