#!/usr/bin/env python3
"""Makes the tiny random checkpoints in this folder and their golden outputs.

    pip install torch transformers safetensors      (CPU builds do)
    python model/testdata/make_fixtures.py

Each folder gets config.json (written as published checkpoints have it),
model.safetensors (at most 200 kB) and golden.json: for a few token sequences
the logits at some positions, and hidden states after some blocks, computed by
Transformers in float32 from the stored weights. Weights are random with a
fixed seed and large enough that attention matters; sequences are long enough
to cross page borders (64) and windows.
"""

import json
import math
import os

import torch
from safetensors.torch import save_file
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 96

COMMON = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
    vocab_size=VOCAB, max_position_embeddings=1024, rms_norm_eps=1e-5, hidden_act="silu", bos_token_id=1,
    eos_token_id=2, tie_word_embeddings=False, attention_bias=False, rope_theta=10000.0)

LLAMA = dict(COMMON, model_type="llama", architectures=["LlamaForCausalLM"], head_dim=16, mlp_bias=False)
MISTRAL = dict(COMMON, model_type="mistral", architectures=["MistralForCausalLM"], head_dim=16, sliding_window=None)
MISTRAL.pop("attention_bias")
QWEN2 = dict(COMMON, model_type="qwen2", architectures=["Qwen2ForCausalLM"], hidden_size=64, num_attention_heads=4,
             rope_theta=1000000.0, use_sliding_window=False, sliding_window=4096, max_window_layers=2,
             rms_norm_eps=1e-6, tie_word_embeddings=True, intermediate_size=96)
QWEN2.pop("attention_bias")
QWEN3 = dict(COMMON, model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=16, rope_theta=1000000.0,
             rms_norm_eps=1e-6, use_sliding_window=False, sliding_window=None, max_window_layers=2)
GEMMA3 = dict(COMMON, model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], num_hidden_layers=3, head_dim=16,
              num_key_value_heads=1, sliding_window=24, rms_norm_eps=1e-6, rope_theta=1000000.0,
              rope_local_base_freq=10000.0, query_pre_attn_scalar=24, hidden_activation="gelu_pytorch_tanh",
              layer_types=["sliding_attention", "sliding_attention", "full_attention"], tie_word_embeddings=True,
              attn_logit_softcapping=None, final_logit_softcapping=None)
GEMMA3.pop("hidden_act")

# name, config as stored, classes, type of the stored weights
FIXTURES = [
    ("llama", dict(LLAMA, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                            original_max_position_embeddings=128)),
     LlamaConfig, LlamaForCausalLM, torch.float32),
    ("llama-tied", dict(LLAMA, tie_word_embeddings=True, rope_scaling=dict(type="linear", factor=2.0)),
     LlamaConfig, LlamaForCausalLM, torch.bfloat16),
    ("mistral", MISTRAL, MistralConfig, MistralForCausalLM, torch.float16),
    ("mistral-window", dict(MISTRAL, sliding_window=40), MistralConfig, MistralForCausalLM, torch.bfloat16),
    ("qwen2", QWEN2, Qwen2Config, Qwen2ForCausalLM, torch.bfloat16),
    ("qwen3", QWEN3, Qwen3Config, Qwen3ForCausalLM, torch.float32),
    ("gemma3", GEMMA3, Gemma3TextConfig, Gemma3ForCausalLM, torch.bfloat16),
    ("gemma3-scaled", dict(GEMMA3, sliding_window=70, rope_scaling=dict(rope_type="linear", factor=8.0)),
     Gemma3TextConfig, Gemma3ForCausalLM, torch.bfloat16),
]


def randomize(model, dtype, generator):
    """Fills every parameter: matrices keep the scale of their input, norms stay near their neutral value."""
    zero_centred = isinstance(model, Gemma3ForCausalLM)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                value = 0.2 * noise + (0.0 if zero_centred else 1.0)
            elif name.endswith("bias"):
                value = 0.5 * noise
            elif "embed_tokens" in name:
                value = noise / math.sqrt(p.shape[1]) if zero_centred else noise
            elif "q_proj" in name or "k_proj" in name:
                value = 2 * noise / math.sqrt(p.shape[1])  # sharp attention: a wrong position shows
            else:
                value = noise / math.sqrt(p.shape[1])
            p.copy_(value.to(dtype).float())


def golden(model, generator):
    """Outputs for a short sequence and for one that crosses pages and windows."""
    out = []
    for length, positions in ((5, [0, 1, 4]), (200, [0, 23, 24, 40, 63, 64, 65, 71, 127, 128, 199])):
        tokens = torch.randint(0, VOCAB, (1, length), generator=generator)
        with torch.no_grad():
            r = model(tokens, output_hidden_states=True, use_cache=False)
        layers = len(r.hidden_states) - 1
        # hidden_states[l + 1] is the output of block l; the last one is behind the final norm.
        hidden = {str(l if l < layers - 1 else layers): r.hidden_states[l + 1][0, positions].tolist()
                  for l in range(layers)}
        out.append(dict(tokens=tokens[0].tolist(), positions=positions, logits=r.logits[0, positions].tolist(),
                        hidden=hidden))
    return out


def rounded(x):
    if isinstance(x, float):
        return float(f"{x:.7g}")
    if isinstance(x, list):
        return [rounded(v) for v in x]
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return x


def main():
    torch.set_num_threads(1)
    for number, (name, config, config_class, model_class, dtype) in enumerate(FIXTURES):
        generator = torch.Generator().manual_seed(1000 + number)
        loaded = config_class.from_dict(json.loads(json.dumps(config)))
        loaded._attn_implementation = "eager"
        model = model_class(loaded).float().eval()
        randomize(model, dtype, generator)
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(dict(config, torch_dtype=str(dtype).removeprefix("torch.")), f, indent=2)
            f.write("\n")
        tensors = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()
                   if not (k == "lm_head.weight" and config["tie_word_embeddings"])}
        path = os.path.join(folder, "model.safetensors")
        save_file(tensors, path, metadata={"format": "pt"})
        with open(os.path.join(folder, "golden.json"), "w") as f:
            f.write(json.dumps(rounded(golden(model, generator)), separators=(",", ":")).replace("]],", "]],\n"))
            f.write("\n")
        print(name, os.path.getsize(path), "bytes", os.path.getsize(os.path.join(folder, "golden.json")), "golden")
        assert os.path.getsize(path) <= 200_000


if __name__ == "__main__":
    main()
