"""Trains a DFlash block drafter for a frozen target.

    python train_dflash.py --target PATH --data DIR --work DIR --out DIR --mask-token ID [--samples samples.npy]

PATH is a Hugging Face directory (or the demo's target.pt), the data are as for train_mtp.py. --mask-token is an id
that never occurs in text (a reserved or padding token): its embedding fills the slots to be predicted. --taps are the
0-based target layers whose outputs are the drafter's context; the default spreads three from layer 1 to the last.

Every row carries --anchors blocks at random starts, which see the context before them and themselves only. The loss of
slot i is KL to the target's distribution there, weighted exp(-(i-1)/2.5): early slots decide whether later ones count.

Cost: one target forward plus a forward and backward pass over anchors x block slots per row; for the demo target 1.6
core-seconds per 4,096 tokens. The demo's drafter saw 4.1 M tokens and reaches a mean acceptance length of 2.4 greedily
and 2.0 at T = 0.8 with a block of 8 (2.0 and 1.8 after half of them): it needs longer training than an MTP head.
"""

import torch

import common
import drafting
import family
import layouts
from model import kl


def loss_on(drafter, target, x, anchors, mask_embedding, seed, step):
    """Weighted KL over the predicted slots of random blocks in rows x [B, T]."""
    h, taps = target.features(x, drafter.taps)
    b, t = x.shape
    slots = drafter.block - 1
    starts = drafting.positions(t - drafter.block - 4, 1.0, seed, step)
    keep = torch.randperm(len(starts), generator=torch.Generator().manual_seed(seed + step))[:anchors].sort()[0]
    starts = starts[keep.to(starts.device)] + 4
    y = drafter(drafter.context(taps), starts, target.embed(x[:, starts]), mask_embedding)[:, :, 1:]
    # The token at start + i is what the target says after position start + i - 1.
    at = starts[:, None] + torch.arange(slots, device=x.device)
    weight = torch.exp(-torch.arange(slots, device=x.device) / 2.5)
    flat = lambda z: z.reshape(-1, z.shape[-1])
    loss = kl(target.head(flat(y)), target.head(flat(h[:, at]))).view(-1, slots)
    return (loss * (weight / weight.mean())).mean()


def main():
    """Entry point."""
    p = drafting.arguments(__doc__, steps=2400, lr=3e-3, matrix_lr=6e-3, seed=3)
    p.add_argument("--mask-token", type=int, help="default: <|mask|> of data/meta.json")
    p.add_argument("--taps", help="comma-separated target layers")
    p.add_argument("--block", type=int, default=family.BLOCK)
    p.add_argument("--layers", type=int, default=family.DFLASH_LAYERS)
    p.add_argument("--ffn", type=int, default=0, help="MLP width (default: 384 for the demo, else the target's)")
    p.add_argument("--anchors", type=int, default=64, help="blocks per 256 tokens")
    args = p.parse_args()
    target, mix = drafting.setup(args)
    mask = args.mask_token if args.mask_token is not None else common.load_meta(args.data)["mask"]
    last = target.config.num_hidden_layers - 1
    taps = tuple(int(v) for v in args.taps.split(",")) if args.taps else (1, (1 + last) // 2, last)
    ffn = args.ffn or (family.DFLASH_FFN if args.target.endswith(".pt") else None)
    drafter = family.make_dflash(target.config, mask, taps, args.block, args.layers, ffn).to(common.device())

    def loss_of(step):
        length = drafting.length_at(step, args.steps)
        x = mix.batch(step, args.chunks, length)[:, :-1]
        with common.autocast():
            mask_embedding = target.embed(torch.tensor([mask], device=x.device))[0]
            return loss_on(drafter, target, x, args.anchors * length // 256, mask_embedding, args.seed, step), x.numel()

    common.train("dflash", drafter, loss_of, args.steps, args.work, args.lr, args.matrix_lr, keep=50)
    drafting.finish(args, lambda out: layouts.export_dflash(out, drafter, last + 1))


if __name__ == "__main__":
    main()
