"""How long the acceptance of a block drafter could be at T > 0, if it were ideal.

    python ceiling.py --target DIR --data DIR [--rows 32] [--samples 128] [--sharpen 1,2]

A drafter that fills a block in one pass cannot know which tokens will be drawn earlier in the block. For slot i it can
propose from one distribution only: at best from what the target says there, averaged over the continuations in which
the slot is reached. Here the target itself draws those continuations, each weighted by the probability that the
proposals before are accepted, and proposals are made from the average with the target's own noise, on the streams of
eval.py. A power of the average (--sharpen) favours its likeliest token, a bet that may do better. Greedily there is nothing to average, and no such bound below the block.
"""

import functools
import os

import numpy as np
import torch

import acceptance
import common
import targets


class Block:
    """The proposals of an ideal block drafter after the tokens x [T] of a stream; noise [most, V] is the stream's."""

    def __init__(self, target, x, noise, temperature, samples, sharpen, generator):
        self.target, self.noise, self.temperature, self.generator = target, noise, temperature, generator
        self.sharpen, self.weight = sharpen, torch.full((samples,), 1 / samples)
        prefix = target.start(1, len(x))
        first = target.step(x[None], prefix, 0)
        self.cache = target.start(samples, len(x) + len(noise))
        self.cache[:, :, :, :, : len(x)] = prefix
        self.at, self.p = len(x), torch.softmax(first / temperature, -1).expand(samples, -1)
        self.made = []

    def __len__(self):
        return len(self.noise)

    def __getitem__(self, i):
        """Proposal i; later slots are only computed when a round gets there."""
        while len(self.made) <= i:
            if self.made:
                self.draw()
            # In the first slot nothing is averaged, and the target's own distribution is always right.
            power = self.sharpen if self.made else 1
            self.q = torch.log_softmax(power * (self.weight @ self.p).log(), -1)
            self.made.append(int((self.q + self.noise[len(self.made)]).argmax()))
        return self.made[i]

    def draw(self):
        """Draws the next token of every continuation."""
        token = torch.multinomial(self.p, 1, generator=self.generator)
        self.weight = self.weight * (self.q[token].exp() / self.p.gather(1, token)).clamp(max=1)[:, 0]
        self.weight = self.weight / self.weight.sum()
        self.p = torch.softmax(self.target.step(token, self.cache, self.at) / self.temperature, -1)
        self.at += 1


class Row:
    """The blocks of one stream by chain number, made when asked for."""

    def __init__(self, target, s, row, most, *how):
        first, _ = s.chains(most)
        make = lambda i: Block(target, s.x[row, : first + i + 1], s.noise[i : i + most, row], s.temperature, *how)
        self.block = functools.lru_cache(1)(make)

    def __getitem__(self, i):
        return self.block(i)


@torch.inference_mode()
def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--target", required=True, help="a Qwen3 directory with a tied head, such as demo/target")
    p.add_argument("--data", required=True, help="directory with held.npy")
    p.add_argument("--rows", type=common.count, default=32, help="streams")
    p.add_argument("--prompt", type=common.count, default=128, help="tokens of held-out code before each continuation")
    p.add_argument("--length", type=common.count, default=64, help="tokens of a continuation")
    p.add_argument("--most", type=common.count, default=7, help="slots to propose")
    p.add_argument("--samples", type=common.count, default=128, help="continuations to average over")
    p.add_argument("--sharpen", default="1", help="comma-separated powers of the averages to propose from")
    p.add_argument("--temperature", type=common.weight, default=0.8, help="of streams and proposals")
    args = p.parse_args()
    target = targets.load(args.target, torch.device("cpu"))
    held = np.load(os.path.join(args.data, "held.npy"))
    s = acceptance.Streams(target, held, args.rows, args.prompt, args.length, args.temperature, (), 5)
    for power in (float(v) for v in args.sharpen.split(",")):
        how = args.samples, power, torch.Generator().manual_seed(1)
        rows = [Row(target, s, r, args.most, *how) for r in range(len(s.x))]
        mean, curve, _ = acceptance.walk(s, rows, args.most)
        print(f"ideal block drafter, T = {args.temperature}, averages to the power {power:g}: mean acceptance length "
              f"{mean:.2f}, accepted by position {' '.join(f'{c:.2f}' for c in curve)}", flush=True)


if __name__ == "__main__":
    common.run(main)
