"""Trains the demo target on, together with its DFlash drafter.

    python train_joint.py --target work/base.pt --data DIR --work DIR [--init DFLASH_DIR]

A drafter that reads a frozen target finds in its hidden states what they happen to hold. Here they learn to hold what the drafter
needs, as when a model is pretrained with prediction heads (Gloeckle et al. 2024, DeepSeek-V3) or finetuned with them
(Medusa-2): the drafter's loss flows back into the tapped layers (--hidden-weight), beside the next-token loss. And
the target gives way a little (--agree-weight times the proposals refused per block, growing from zero over the run): two small
models that differ by chance meet where the text leaves them free.

Writes work/target.pt and the directory work/joint-dflash, from which train_dflash.py goes on (--init) with the target
frozen. The checkpoint is work/joint.pt. Cost: 7 to 9 core-seconds per 4,096 tokens for the demo's pair in f32.
"""

import os

import torch
import torch.nn.functional as F
from torch import nn

import common
import drafting
import family
import layouts
import train_dflash
from model import CausalLM, Config
from train_target import held_out, length_at


class Pair(nn.Module):
    """A target and its drafter, as one set of weights to train."""

    def __init__(self, target, drafter):
        super().__init__()
        self.target, self.drafter = target, drafter


def loss_on(pair, rows, anchors, hidden_weight, agree_weight, seed, step):
    """The losses of rows [B, T+1]: next token, drafter's divergence, and the target's disagreement per block."""
    target, drafter = pair.target, pair.drafter
    x = rows[:, :-1]
    with common.autocast():
        h, taps = target.hidden(x, drafter.taps)
        logits = target.head(h)
        text = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        student, at, block, slot = train_dflash.blocks_on(drafter, target, x, taps, anchors, seed, step)
        teacher = drafting.log_probs(logits[:, at])
        still = teacher.detach()
        weight = train_dflash.reached(x, student, still, at, block, slot)
        draft = (weight * drafting.divergence(student, still)).mean()
        refused = weight * drafting.total_variation(student.detach(), teacher)
        agree = refused.sum(1).mean() / (slot == 0).sum()
    return text, hidden_weight * draft, agree_weight * agree


def load(args, meta):
    """The pair to start from."""
    target = CausalLM(Config(**family.TARGET))
    state = common.fill(target, args.target)
    if args.init:
        drafter = layouts.load_dflash(args.init, target.config)
    else:
        drafter = family.make_dflash(target.config, meta["mask"])
    return Pair(target, drafter).to(common.device()), state.get("step", 0)


def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--target", required=True, help="work/base.pt of train_target.py")
    p.add_argument("--data", required=True, help="directory that data.py made")
    p.add_argument("--init", help="start from this exported drafter instead of from random weights")
    p.add_argument("--work", required=True, help="checkpoint directory")
    p.add_argument("--steps", type=common.count, default=600, help="batches to train on")
    p.add_argument("--chunks", type=common.count, default=4, help="chunks of 1,024 tokens per step")
    p.add_argument("--anchors", type=common.count, default=32, help="blocks per 256 tokens")
    p.add_argument("--hidden-weight", type=common.weight, default=1.0, help="of the drafter's loss")
    p.add_argument("--agree-weight", type=common.weight, default=1.2, help="of the target's disagreement with the drafter, at the end")
    p.add_argument("--lr", type=common.weight, default=2.4e-3, help="AdamW: embeddings and norms")
    p.add_argument("--matrix-lr", type=common.weight, default=3.6e-3, help="Muon: everything else")
    p.add_argument("--seed", type=int, default=0, help="of order and positions; text goes on where the target's stopped")
    args = p.parse_args()

    torch.manual_seed(args.seed)
    pair, done = load(args, common.load_meta(args.data))
    mix = common.Mixture(args.data, args.seed)
    sums, count = torch.zeros(3), 0

    def loss_of(step):
        nonlocal sums, count
        length = length_at(step, args.steps)
        rows = mix.batch(done + step, args.chunks, length)
        # The drafter has to be worth agreeing with first.
        agree_weight = args.agree_weight * step / args.steps
        parts = loss_on(pair, rows, args.anchors * length // 256, args.hidden_weight, agree_weight, args.seed, step)
        sums, count = sums + torch.stack(parts).detach().cpu(), count + 1
        return sum(parts), rows[:, 1:].numel()

    def report(step):
        nonlocal sums, count
        print("joint: text, draft, agree", *(f"{v:.4f}" for v in (sums / max(1, count)).tolist()), flush=True)
        sums, count = torch.zeros(3), 0
        if step % 250 == 0 or step == args.steps:
            print(f"joint: step {step} held-out {held_out(pair.target, args.data):.4f} bits/byte", flush=True)

    common.train("joint", pair, loss_of, args.steps, args.work, args.lr, args.matrix_lr, keep=50, report=report)
    common.save(os.path.join(args.work, "target.pt"), {"model": pair.target.state_dict()})
    layouts.export_dflash(os.path.join(args.work, "joint-dflash"), pair.drafter, pair.target.config.num_hidden_layers)


if __name__ == "__main__":
    common.run(main)
