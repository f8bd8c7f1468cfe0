"""Trains a DFlash block drafter for a frozen target.

    python train_dflash.py --target PATH --data DIR --work DIR --out DIR --mask-token ID [--samples samples.npy | --features DIR]

PATH is a Hugging Face directory (or the demo's target.pt), the data are as for train_mtp.py. --mask-token is an id
that never occurs in text (a reserved or padding token): its embedding fills the slots to be predicted. --taps are the
0-based target layers whose outputs are the drafter's context; the default spreads three from layer 1 to the last.

Every row carries --anchors blocks at random starts, which see the context before them and themselves only. Slot i
enters the loss in exp(-(i-1)/2) of the blocks, weighted by the probability that the slots before it are accepted: it
matters only then, and so may bet on them.

Cost: one target forward (none with --features, see features.py) plus a forward and backward pass over anchors x block
slots per row; for the demo target 2.1 core-seconds per 2,048 tokens in f32. The demo's drafter saw 14 M tokens, 4 M of
them together with the target (train_joint.py), and reaches a mean acceptance length of 3.0 greedily and 2.4 at T = 0.8 with a
block of 8; 6 M tokens with a frozen target gave 2.5 and 2.1. It needs longer training than an MTP head.
"""

import torch

import common
import drafting
import family
import features
import layouts


def blocks_on(drafter, target, x, taps, anchors, seed, step):
    """What the drafter says in the slots of random blocks in rows x [B, T], from the target's tapped layers.

    Returns log probabilities [B, N, V], the positions [N] after which the target answers the same question, and their
    blocks and slots [N], both from 0.
    """
    order = torch.randperm(x.shape[1] - drafter.block - 4, generator=torch.Generator().manual_seed(seed * 1_000_003 + step))
    starts = 4 + order[:anchors].to(x.device)
    mask = target.embed(torch.tensor([drafter.mask_token], device=x.device))[0]
    y = drafter(drafter.context(taps), starts, target.embed(x[:, starts]), mask)[:, :, 1:]
    share = torch.exp(-torch.arange(drafter.block - 1, device=x.device) / 2)
    block, slot = (torch.arange(len(starts), device=x.device)[:, None] < len(starts) * share).nonzero(as_tuple=True)
    # The token at start + i is what the target says after position start + i - 1; slot counts from i = 1.
    return drafting.log_probs(target.head(y[:, block, slot])), starts[block] + slot, block, slot


@torch.no_grad()
def reached(x, student, teacher, at, block, slot):
    """The probability [B, N] that the slots before each one are accepted, on the tokens of rows x."""
    accepted = torch.ones(len(x), int(block.max()) + 1, int(slot.max()) + 2, device=x.device)
    ratio = (student - teacher).gather(-1, x[:, at + 1, None])[..., 0]
    accepted[:, block, slot + 1] = ratio.exp().clamp(max=1)
    return accepted.cumprod(-1)[:, block, slot]


def loss_on(drafter, target, x, h, taps, anchors, seed, step, kl=1.0):
    """Divergence in the predicted slots of random blocks in rows x [B, T] with the frozen target's features."""
    student, at, block, slot = blocks_on(drafter, target, x, taps, anchors, seed, step)
    teacher = drafting.log_probs(target.head(h[:, at]))
    return (reached(x, student, teacher, at, block, slot) * drafting.divergence(student, teacher, kl)).mean()


def main():
    """Entry point."""
    p = drafting.arguments(__doc__, steps=800, lr=3e-3, matrix_lr=6e-3, seed=3)
    p.add_argument("--mask-token", type=int, help="<|mask|> of meta.json beside the data if not given")
    p.add_argument("--taps", help="comma-separated target layers (three spread over the depth if not given)")
    p.add_argument("--block", type=common.at_least(2), help=f"slots, the known token included ({family.BLOCK} if not given)")
    p.add_argument("--layers", type=common.count, help=f"of the drafter ({family.DFLASH_LAYERS} if not given)")
    p.add_argument("--ffn", type=common.count, help=f"MLP width ({family.DFLASH_FFN} for the demo, else the target's, if not given)")
    p.add_argument("--anchors", type=common.count, default=64, help="blocks per 256 tokens")
    args = p.parse_args()
    target, source = drafting.setup(args)
    layers = target.config.num_hidden_layers
    if args.init:
        drafting.refuse_shape(args, "mask_token", "taps", "block", "layers", "ffn")
        drafter = layouts.load_dflash(args.init, target.config)
    else:
        mask = drafting.mask_token(args, target)
        ffn = args.ffn or (family.DFLASH_FFN if args.target.endswith(".pt") else None)
        drafter = family.make_dflash(
            target.config, mask, features.parse_taps(args.taps, layers), args.block or family.BLOCK,
            args.layers or family.DFLASH_LAYERS, ffn,
        )
    drafter.to(common.device())

    def loss_of(step):
        length = drafting.length_at(step, args.steps)
        with common.autocast():
            x, h, taps = source.batch(step, args.chunks, length, drafter.taps)
            anchors = args.anchors * length // 256
            return loss_on(drafter, target, x, h, taps, anchors, args.seed, step, args.kl), x.numel()

    common.train("dflash", drafter, loss_of, args.steps, args.work, args.lr, args.matrix_lr, keep=50)
    drafting.finish(args, lambda out: layouts.export_dflash(out, drafter, layers))


if __name__ == "__main__":
    common.run(main)
