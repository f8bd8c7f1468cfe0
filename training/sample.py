"""Samples continuations from a target, as on-policy training text for its drafters.

    python sample.py --target PATH --data DIR --out samples.npy [--tokens 700000]

Prompts are 32 to 128 tokens of training text; a third of the rows continues greedily, the rest at T = 0.8. Rows that
loop (under half of their 4-grams distinct) are dropped. What a drafter meets at work is what the target writes, so it should have
seen that too.
"""

import os

import numpy as np
import torch

import common
import targets

LENGTH = 256


def generate(target, prompt, total, temperature, generator, noise=None):
    """Continues prompt [B, P] to [B, total]; temperature [B], 0 is greedy. noise(i) gives Gumbel noise [B, V]."""
    b, p = prompt.shape
    cache = target.start(b, total)
    x, hot = prompt, (temperature > 0)[:, None]
    logits = target.step(prompt, cache, 0).float()
    for at in range(p, total):
        g = noise(at - p) if noise else gumbel(logits.shape, generator, logits.device)
        scores = torch.where(hot, logits / temperature.clamp(min=1e-3)[:, None] + g, logits)
        token = scores.argmax(-1, keepdim=True)
        x = torch.cat([x, token], 1)
        if at + 1 < total:
            logits = target.step(token, cache, at).float()
    return x


def gumbel(shape, generator, device):
    """Standard Gumbel noise."""
    u = torch.rand(shape, generator=generator).clamp_(1e-9, 1 - 1e-7)
    return (-torch.log(-torch.log(u))).to(device)


def distinct(row, n=4):
    """The share of distinct n-grams."""
    grams = [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]
    return len(set(grams)) / len(grams)


def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--target", required=True, help="work/target.pt or a Hugging Face directory")
    p.add_argument("--data", required=True, help="directory with train.npy")
    p.add_argument("--out", required=True, help="file to write; left alone if it is there")
    p.add_argument("--tokens", type=common.count, default=700_000, help="to write in all")
    p.add_argument("--rows", type=common.count, default=192, help="rows per batch")
    p.add_argument("--seed", type=int, default=7, help="of prompts and noise")
    args = p.parse_args()
    if os.path.exists(args.out):
        print("samples: present in", args.out)
        return
    dev = common.device()
    target = targets.load(args.target, dev)
    text = np.load(os.path.join(args.data, "train.npy"), mmap_mode="r")
    rng, gen = np.random.default_rng(args.seed), torch.Generator().manual_seed(args.seed)
    temperature = torch.where(torch.arange(args.rows) % 3 == 0, 0.0, 0.8).to(dev)
    kept, dropped = [], 0
    while len(kept) * LENGTH < args.tokens:
        size = int(rng.integers(32, 129))
        starts = rng.integers(0, len(text) - size, args.rows)
        prompt = torch.from_numpy(np.stack([text[s : s + size] for s in starts]).astype(np.int64)).to(dev)
        with torch.inference_mode(), common.autocast():
            rows = generate(target, prompt, LENGTH, temperature, gen).cpu().numpy().astype(text.dtype)
        good = [r for r in rows if distinct(r[size:].tolist()) >= 0.5]
        kept += good
        dropped += len(rows) - len(good)
        print(f"samples: {len(kept) * LENGTH / 1e6:.3f}M tokens, {dropped} looping rows dropped", flush=True)
    out = np.concatenate(kept)
    np.save(args.out + ".part.npy", np.append(out, out[:1]))
    os.replace(args.out + ".part.npy", args.out)


if __name__ == "__main__":
    common.run(main)
