"""Writers of the public checkpoint layouts: safetensors and the JSON files beside them."""

import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file

from common import load_meta
from model import Config, DFlash, MTPHead

# A base model completes text; this template makes chat requests completions of the last message.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}"


def write_json(folder, name, value):
    """One JSON file, keys in the given order."""
    with open(os.path.join(folder, name), "w") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


def write_tensors(folder, tensors, dtype=torch.float16):
    """model.safetensors with every tensor in dtype."""
    os.makedirs(folder, exist_ok=True)
    out = {n: t.detach().cpu().to(dtype).contiguous() for n, t in tensors.items()}
    for n, t in out.items():
        if not torch.isfinite(t).all():
            raise SystemExit(f"tensor {n} has values that {dtype} cannot hold")
    path = os.path.join(folder, "model.safetensors")
    save_file(out, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)  # safetensors makes files that only their owner may read


def stack_config(c, meta=None, **more):
    """The Qwen3 fields of a config.json."""
    return {
        "model_type": "qwen3",
        "hidden_size": c.hidden_size,
        "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.num_hidden_layers,
        "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads,
        "head_dim": c.head_dim,
        "vocab_size": c.vocab_size,
        "max_position_embeddings": c.max_position_embeddings,
        "rms_norm_eps": c.rms_norm_eps,
        "rope_theta": c.rope_theta,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "torch_dtype": "float16",
    } | ({"bos_token_id": None, "eos_token_id": meta["eos"], "pad_token_id": meta["pad"]} if meta else {}) | more


def export_lm(folder, model, data):
    """A Qwen3 directory with its tokenizer."""
    meta = load_meta(data)
    write_tensors(folder, model.state_dict())
    more = {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True, "use_cache": True}
    write_json(folder, "config.json", more | stack_config(model.config, meta))
    write_json(folder, "generation_config.json", {"eos_token_id": meta["eos"], "pad_token_id": meta["pad"]})
    shutil.copy(os.path.join(data, "tokenizer.json"), folder)
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "add_prefix_space": False,
            "add_bos_token": False,
            "bos_token": None,
            "eos_token": "<|endoftext|>",
            "pad_token": "<|pad|>",
            "unk_token": None,
            "clean_up_tokenization_spaces": False,
            "model_max_length": model.config.max_position_embeddings,
            "chat_template": CHAT_TEMPLATE,
            "added_tokens_decoder": {
                str(meta[k]): {
                    "content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
                    "special": True,
                }
                for k, text in (("eos", "<|endoftext|>"), ("mask", "<|mask|>"), ("pad", "<|pad|>"))
            },
        },
    )


def export_mtp(folder, head, meta=None):
    """An MTP directory: mtp.* tensors and a config that says the norms are plain (weight w, not 1 + w)."""
    write_tensors(folder, {"mtp." + n: t for n, t in head.state_dict().items()})
    config = {"architectures": ["Qwen3MTP"]} | stack_config(head.config, meta, num_hidden_layers=1)
    config |= {"model_type": "qwen3_mtp", "num_nextn_predict_layers": 1, "tie_word_embeddings": True}
    write_json(folder, "config.json", config)


def export_dflash(folder, d, target_layers, meta=None):
    """A DFlash directory for a target of target_layers layers."""
    write_tensors(folder, d.state_dict())
    config = {"architectures": ["DFlashDraftModel"]} | stack_config(d.config, meta)
    config |= {
        "block_size": d.block,
        "layer_types": d.layer_types,
        "num_target_layers": target_layers,
        "dflash_config": {"target_layer_ids": list(d.taps), "mask_token_id": d.mask_token},
    }
    write_json(folder, "config.json", config)


def check_width(folder, c, target):
    """Refuses a drafter that is not as wide as the target it is for, if that is given."""
    if target and c.hidden_size != target.hidden_size:
        raise SystemExit(f"{folder}: hidden_size is {c.hidden_size}, the target's {target.hidden_size}: want a drafter of this target")


def load_mtp(folder, target=None):
    """The MTP head of a directory that export_mtp wrote, in f32; for a target of this configuration, if given."""
    c, path = Config.load(folder), os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    if not all(n.startswith("mtp.") for n in tensors):
        raise SystemExit(f"{path} has tensors beside mtp.*: want an MTP head's")
    check_width(folder, c, target)
    head = MTPHead(c)
    head.load_state_dict({n.removeprefix("mtp."): t.float() for n, t in tensors.items()})
    return head


def load_dflash(folder, target=None):
    """The drafter of a directory that export_dflash wrote, in f32; for a target of this configuration, if given."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        raw = json.load(f)
    if "dflash_config" not in raw:
        raise SystemExit(f"{path} has no dflash_config: want a DFlash drafter's")
    c, inner = Config.load(folder), raw["dflash_config"]
    check_width(folder, c, target)
    if target and max(inner["target_layer_ids"]) >= target.num_hidden_layers:
        raise SystemExit(f"{path}: target_layer_ids are {inner['target_layer_ids']}, but the target has {target.num_hidden_layers} layers")
    d = DFlash(c, c.hidden_size, inner["target_layer_ids"], raw["block_size"], inner["mask_token_id"], raw["layer_types"])
    d.load_state_dict({n: t.float() for n, t in load_file(os.path.join(folder, "model.safetensors")).items()})
    return d
