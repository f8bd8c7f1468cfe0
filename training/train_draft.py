"""Distils the demo's draft model from the target: KL and total variation against its distribution, at T = 0.8.

    python train_draft.py --target work/target.pt --data DIR --work DIR [--samples samples.npy | --features DIR]

Cost: 0.4 core-seconds per 2,048 tokens with stored features (features.py), three times that without.
"""

import common
import drafting
import family
import layouts
import targets
from model import CausalLM, Config


def main():
    """Entry point."""
    args = drafting.arguments(__doc__, steps=1500, lr=6e-3, matrix_lr=8e-3, seed=1).parse_args()
    target, source = drafting.setup(args)
    model = (targets.load_qwen3(args.init) if args.init else CausalLM(Config(**family.DRAFT))).to(common.device())

    def loss_of(step):
        with common.autocast():
            x, h, _ = source.batch(step, args.chunks, drafting.length_at(step, args.steps))
            at = drafting.positions(x.numel(), 0.5, args.seed, step)
            teacher = drafting.log_probs(target.head(h.flatten(0, 1)[at]))
            student = drafting.log_probs(model.head(model.hidden(x)[0].flatten(0, 1)[at]))
            return drafting.divergence(student, teacher, args.kl).mean(), x.numel()

    common.train("draft", model, loss_of, args.steps, args.work, args.lr, args.matrix_lr, keep=100)
    drafting.finish(args, lambda out: layouts.export_lm(out, model, args.data))


if __name__ == "__main__":
    common.run(main)
