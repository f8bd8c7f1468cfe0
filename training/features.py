"""Keeps on disk what the frozen target computes for its drafters, so that they can train without running it.

    python features.py --target PATH --data DIR --out DIR [--samples samples.npy] [--tokens 1400000]

For a small drafter the target's forward pass is half of a step or more, and every drafter, and every epoch, needs
the same of it: the final hidden of each position (its head gives the distribution to learn) and the outputs of the
tapped layers. They are stored in f16 beside their tokens, as rows of 256 and, a tenth as many tokens, of 1,024: 2 KB per
token for the demo target. train_draft.py, train_mtp.py and train_dflash.py read them with --features DIR.
"""

import json
import os

import numpy as np
import torch

import common
import targets

LENGTHS = (256, 1024)


class Fresh:
    """Features computed for every batch."""

    def __init__(self, target, mixture):
        self.target, self.mixture = target, mixture

    def batch(self, step, chunks, length, taps=()):
        """Tokens [B, T], final hiddens [B, T, H] and the outputs of the layers in taps, of one step's rows."""
        x = self.mixture.batch(step, chunks, length)[:, :-1]
        return (x, *self.target.features(x, taps))


class Stored:
    """Features of a directory that this script wrote, rows in a seeded order without repetition inside an epoch."""

    def __init__(self, folder, seed):
        self.folder, self.seed, self.open, self.epoch = folder, seed, {}, None
        with open(os.path.join(folder, "features.json")) as f:
            self.taps = json.load(f)["taps"]

    def batch(self, step, chunks, length, taps=()):
        """Like Fresh.batch."""
        if missing := set(taps) - set(self.taps):
            raise SystemExit(f"{self.folder} lacks the layers {sorted(missing)}: give features.py their --taps")
        if length not in self.open:
            self.open[length] = [np.load(os.path.join(self.folder, f"{n}-{length}.npy"), "r") for n in ("tokens", "hidden")]
        tokens, hidden = self.open[length]
        n = chunks * common.CHUNK // length
        rows = [self.row(i, len(tokens)) for i in range(step * n, step * n + n)]
        x = torch.from_numpy(tokens[rows].astype(np.int64)).to(common.device())
        at = [0] + [1 + self.taps.index(l) for l in taps]
        h = [torch.from_numpy(np.stack([hidden[r, i] for r in rows])).to(common.device()).float() for i in at]
        return x, h[0], h[1:]

    def row(self, i, count):
        """The row that is number i of the endless order."""
        if self.epoch != (i // count, count):
            self.epoch = (i // count, count)
            self.order = np.random.default_rng([self.seed, i // count]).permutation(count)
        return int(self.order[i % count])


def parse_taps(text, layers):
    """--taps: comma-separated layers; by default three, spread from layer 1 to the last."""
    try:
        taps = [int(v) for v in text.split(",")] if text else sorted({min(1, layers - 1), layers // 2, layers - 1})
    except ValueError:
        taps = [-1]
    if len(set(taps)) < len(taps) or not all(0 <= v < layers for v in taps):
        raise SystemExit(f"--taps {text}: want layers of the target from 0 to {layers - 1}, each once, parted by commas")
    return tuple(taps)


@torch.no_grad()
def store(out, target, mixture, taps, length, count):
    """Writes `count` rows of `length` tokens."""
    name = lambda n: os.path.join(out, f"{n}-{length}.npy")
    chunks = 20
    per = chunks * common.CHUNK // length
    count = -(-count // per) * per
    shape = (count, 1 + len(taps), length, target.config.hidden_size)
    hidden = np.lib.format.open_memmap(name("part"), "w+", np.float16, shape)
    tokens = np.zeros((count, length), np.uint32)
    for i in range(0, count, per):
        x = mixture.batch(i // per, chunks, length)[:, :-1]
        with common.autocast():
            h, tapped = target.features(x, taps)
        hidden[i : i + per] = torch.stack([h, *tapped], 1).half().cpu().numpy()
        tokens[i : i + per] = x.cpu().numpy()
        if not np.isfinite(hidden[i : i + per]).all():
            raise SystemExit("the target's hiddens do not fit into f16")
        print(f"features: {(i + per) * length / 1e6:.2f}M of {count * length / 1e6:.2f}M tokens, rows of {length}", flush=True)
    hidden.flush()
    np.save(name("tokens"), tokens)
    os.replace(name("part"), name("hidden"))


def write_index(out, taps):
    """What Stored must know beside the arrays."""
    with open(os.path.join(out, "features.json"), "w") as f:
        json.dump({"taps": taps}, f)


def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--target", required=True, help="work/target.pt or a Hugging Face directory")
    p.add_argument("--data", required=True, help="directory with train.npy")
    p.add_argument("--samples", help="what the target wrote itself (sample.py)")
    p.add_argument("--share", type=common.share, default=0.5, help="share of rows with samples")
    p.add_argument("--out", required=True, help="directory to write; what is there already is kept")
    p.add_argument("--taps", help="comma-separated target layers for DFlash")
    p.add_argument("--tokens", type=common.count, default=1_400_000, help="in rows of 256; a tenth as many in rows of 1,024")
    p.add_argument("--seed", type=int, default=11, help="of the order of rows")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    target = targets.load(args.target, common.device())
    taps = parse_taps(args.taps, target.config.num_hidden_layers)
    index = os.path.join(args.out, "features.json")
    if os.path.exists(index):
        with open(index) as f:
            if tuple(json.load(f)["taps"]) != taps:
                raise SystemExit(f"{args.out} holds other layers than {list(taps)}: remove it, or give another --out")
    write_index(args.out, taps)
    mixture = common.Mixture(args.data, args.seed, args.samples, args.share)
    for length, tokens in zip(LENGTHS, (args.tokens, args.tokens // 10)):
        if os.path.exists(os.path.join(args.out, f"hidden-{length}.npy")):
            print(f"features: rows of {length} present in", args.out)
            continue
        store(args.out, target, mixture, taps, length, tokens // length)


if __name__ == "__main__":
    common.run(main)
