"""Trains the demo target from scratch on the token files of data.py.

    python train_target.py --data DIR --work DIR

Rows of 256 tokens first, 512 from 70 %, 1,024 for the last 8 %: short rows are cheap, and the position range is
learned at the end. The checkpoint is work/base.pt; run the command again to continue after an interruption.
"""

import math
import os

import numpy as np
import torch
import torch.nn.functional as F

import common
import family
from model import CausalLM, Config


def length_at(step, steps):
    """Row length by progress."""
    done = step / steps
    return 256 if done < 0.7 else 512 if done < 0.92 else 1024


def cross_entropy(model, rows):
    """Mean loss of rows [B, T+1], nats per token."""
    with common.autocast():
        logits = model(rows[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def held_out(model, data, chunks=48, length=1024):
    """Bits per byte on evenly spread held-out chunks."""
    tokens = np.load(os.path.join(data, "held.npy"), mmap_mode="r")
    total = 0.0
    starts = np.linspace(0, len(tokens) - length - 1, chunks).astype(int)
    for s in starts:
        row = torch.from_numpy(tokens[s : s + length + 1].astype(np.int64)).to(common.device())
        total += cross_entropy(model, row[None]).item()
    return total / chunks / math.log(2) / common.load_meta(data)["bytes_per_token"]


def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--data", required=True, help="directory that data.py made")
    p.add_argument("--work", required=True, help="directory of the checkpoint")
    p.add_argument("--steps", type=common.count, default=600, help="batches to train on")
    p.add_argument("--chunks", type=common.count, default=4, help="chunks of 1,024 tokens per step")
    p.add_argument("--lr", type=common.weight, default=4e-3, help="AdamW: embeddings and norms")
    p.add_argument("--matrix-lr", type=common.weight, default=6e-3, help="Muon: everything else")
    p.add_argument("--seed", type=int, default=0, help="of weights and order")
    p.add_argument("--compile", action="store_true", help="torch.compile (needs a C++ compiler)")
    args = p.parse_args()

    torch.manual_seed(args.seed)
    model = CausalLM(Config(**family.TARGET)).to(common.device())
    mix = common.Mixture(args.data, args.seed)
    step_loss = torch.compile(cross_entropy, dynamic=False) if args.compile else cross_entropy

    def loss_of(step):
        rows = mix.batch(step, args.chunks, length_at(step, args.steps))
        return step_loss(model, rows), rows[:, 1:].numel()

    common.train(
        "base", model, loss_of, args.steps, args.work, args.lr, args.matrix_lr, keep=50,
        report=lambda step: print(f"base: step {step} held-out {held_out(model, args.data):.4f} bits/byte", flush=True)
        if step % 500 == 0 or step == args.steps else None,
    )


if __name__ == "__main__":
    common.run(main)
