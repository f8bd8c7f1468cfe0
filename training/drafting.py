"""What the drafter recipes share: their command line, where their batches come from, and their loss."""

import os

import torch
import torch.nn.functional as F

import common
import features
import targets


def arguments(description, **defaults):
    """The common command line of train_draft, train_mtp and train_dflash."""
    p = common.parser(description)
    p.add_argument("--target", required=True, help="work/target.pt or a Hugging Face directory")
    p.add_argument("--data", required=True, help="directory with train.npy (1-D array of the target's token ids)")
    p.add_argument("--samples", help="1-D array of token ids that the target wrote itself (sample.py)")
    p.add_argument("--share", type=common.share, default=0.5, help="share of samples in every batch")
    p.add_argument("--features", help="directory made by features.py, instead of running the target on --data and --samples")
    p.add_argument("--init", help="start from this exported drafter instead of from random weights")
    p.add_argument("--work", required=True, help="checkpoint directory")
    p.add_argument("--out", help="export the drafter into this directory when done")
    p.add_argument("--steps", type=common.count, default=defaults["steps"], help="batches to train on, of --chunks each")
    p.add_argument("--chunks", type=common.count, default=2, help="chunks of 1,024 tokens per step")
    p.add_argument("--lr", type=common.weight, default=defaults["lr"], help="AdamW: embeddings and norms")
    p.add_argument("--matrix-lr", type=common.weight, default=defaults["matrix_lr"], help="Muon: everything else")
    p.add_argument("--kl", type=common.weight, default=1.0, help="weight of the KL divergence beside total variation")
    p.add_argument("--seed", type=int, default=defaults["seed"], help="of weights, order and positions")
    return p


def mask_token(args, target):
    """The id that --mask-token names, or the data's own."""
    mask, vocab = args.mask_token, target.embedding.shape[0]
    if mask is None:
        try:
            mask = common.load_meta(args.data)["mask"]
        except (OSError, KeyError):
            raise SystemExit(f"{args.data} names no mask token: give --mask-token, an id that text never has") from None
    if not 0 <= mask < vocab:
        raise SystemExit(f"--mask-token {mask}: want an id from 0 to {vocab - 1}")
    return mask


def refuse_shape(args, *names):
    """Refuses options that shape a drafter when --init brings one that has its shape."""
    shaped = [f"--{n.replace('_', '-')}" for n in names if getattr(args, n) is not None]
    if shaped:
        raise SystemExit(f"{', '.join(shaped)} with --init: {args.init} has its own shape")


def setup(args):
    """The frozen target and a source of rows with its features."""
    if args.features and args.samples:
        raise SystemExit("--samples with --features: stored features hold samples already, give one of the two")
    torch.manual_seed(args.seed)
    target = targets.load(args.target, common.device())
    if args.features:
        return target, features.Stored(args.features, args.seed)
    return target, features.Fresh(target, common.Mixture(args.data, args.seed, args.samples, args.share))


def log_probs(logits, temperature=0.8):
    """Log probabilities at the temperature that the demo samples with."""
    return F.log_softmax(logits.float() / temperature, -1)


def total_variation(student, teacher):
    """The probability that a proposal is refused, per position, from log probabilities [..., V]."""
    return 0.5 * (teacher.exp() - student.exp()).abs().sum(-1)


def divergence(student, teacher, kl=1.0):
    """kl * KL(teacher || student) plus total variation, per position, from log probabilities [..., V].

    KL alone would spend a small drafter on the tail; total variation alone has no gradient where the two hardly overlap.
    """
    return kl * (teacher.exp() * (teacher - student)).sum(-1) + total_variation(student, teacher)


def length_at(step, steps):
    """Short rows, then a last tenth of long ones, so that the whole position range is met."""
    return 256 if step < 0.9 * steps else 1024


def positions(n, share, seed, step):
    """A sorted random subset of range(n), for losses over a part of the positions: the head is the dearest part."""
    g = torch.Generator().manual_seed(seed * 1_000_003 + step)
    return torch.randperm(n, generator=g)[: max(1, int(n * share))].sort()[0].to(common.device())


def finish(args, write):
    """Exports when asked to."""
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        write(args.out)
        print("exported to", args.out)
