"""Trains a multi-token-prediction head for a frozen target, chained to a depth of 4.

    python train_mtp.py --target PATH --data DIR --work DIR --out DIR [--samples samples.npy | --features DIR] [--ffn N]

PATH is a Hugging Face directory (or the demo's target.pt). DIR/train.npy is a 1-D array of the target's own token ids
(uint16 or uint32) of text like that which will be generated, millions of tokens; sample.py adds the target's own
writing. Every step of the chain is trained on the inputs it has at work: true tokens, the head's own hidden from the
step before, and true hiddens in the cache for everything earlier. The loss is the divergence from the target's
distribution (drafting.py), weighted 1, 0.8, 0.64, 0.51 by depth, over a part of the positions (--positions).

Cost: about one target forward plus four forward and backward passes of one layer per batch; for the demo target 1.9
core-seconds per 2,048 tokens in f32. The demo's head saw 2.2 M tokens and reaches a mean acceptance length of 3.7 greedily and
3.1 at T = 0.8 at depth 4, on text of the training kind.
"""

import common
import drafting
import family
import layouts


def loss_on(head, target, x, h, depth, share, seed, step, kl=1.0):
    """Weighted divergence of the chained steps on rows x [B, T] with the target's final hiddens h."""
    t = x.shape[1]
    outs = head.chain(target.embed(x)[:, 1:], h[:, :-1], depth)
    loss = 0.0
    at = drafting.positions(t - depth, share, seed, step)
    teacher_at = h[:, 1:]  # teacher_at[:, p-1] is the hidden after token p
    for j, y in enumerate(outs):
        # y[:, i] consumed token j+1+i and predicts the next one
        teacher = drafting.log_probs(target.head(teacher_at[:, j:][:, at]))
        loss = loss + 0.8**j * drafting.divergence(drafting.log_probs(target.head(y[:, at])), teacher, kl).mean()
    return loss


def main():
    """Entry point."""
    p = drafting.arguments(__doc__, steps=400, lr=3e-3, matrix_lr=6e-3, seed=2)
    p.add_argument("--ffn", type=common.count, help=f"MLP width of the head ({family.MTP_FFN} for the demo, else the target's, if not given)")
    p.add_argument("--depth", type=common.count, default=family.MTP_DEPTH, help="of the chain")
    p.add_argument("--positions", type=common.share, default=0.33, help="share of the positions that enter the loss")
    args = p.parse_args()
    target, source = drafting.setup(args)
    if args.init:
        drafting.refuse_shape(args, "ffn")
        head = layouts.load_mtp(args.init, target.config)
    else:
        head = family.make_mtp(target.config, args.ffn or (family.MTP_FFN if args.target.endswith(".pt") else None))
    head.to(common.device())

    def loss_of(step):
        with common.autocast():
            x, h, _ = source.batch(step, args.chunks, drafting.length_at(step, args.steps))
            return loss_on(head, target, x, h, args.depth, args.positions, args.seed, step, args.kl), x.numel()

    common.train("mtp", head, loss_of, args.steps, args.work, args.lr, args.matrix_lr, keep=100)
    drafting.finish(args, lambda out: layouts.export_mtp(out, head))


if __name__ == "__main__":
    common.run(main)
