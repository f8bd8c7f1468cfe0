"""What every training script shares: data order, optimizers, the loop with checkpoints and progress.

Everything is a function of (seed, step): the batch order, the sampling positions, the learning rate. A run that is
stopped and started again continues where its last checkpoint was and sees the same batches.
"""

import argparse
import functools
import json
import os
import time

import numpy as np
import torch

CHUNK = 1024  # tokens; a batch is a number of chunks, cut into rows of the wanted length


def device():
    """A GPU when there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@functools.cache
def product_dtype():
    """bf16 where its matrix products are the faster ones: on a GPU, and on a CPU that has instructions for them."""
    if device().type != "cpu":
        return torch.bfloat16
    took = {}
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(512, 512, dtype=dtype)
        for _ in range(3):  # the first ones warm up
            began = time.perf_counter()
            x @ x
            took[dtype] = time.perf_counter() - began
    return min(took, key=took.get)


def autocast():
    """Matrix products in product_dtype(), f32 weights."""
    return torch.autocast(device().type, torch.bfloat16, enabled=product_dtype() == torch.bfloat16)


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """A script's description as it stands, and every option's default."""


def parser(description):
    """The command line of a script."""
    return argparse.ArgumentParser(description=description, formatter_class=Help)


def at_least(least):
    """The type of an option that is a whole number from `least` on, for argparse."""

    def number(text):
        n = int(text)
        if n < least:
            raise argparse.ArgumentTypeError(f"{text}: want a whole number from {least} on")
        return n

    return number


count = at_least(1)


def weight(text):
    """A finite number from 0 on, for argparse."""
    x = float(text)
    if not 0 <= x < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: want a number from 0 on")
    return x


def share(text):
    """A number from 0 to 1, for argparse."""
    x = float(text)
    if not 0 <= x <= 1:
        raise argparse.ArgumentTypeError(f"{text}: want a number from 0 to 1")
    return x


def run(main):
    """Runs a script; a file that cannot be read or written ends it with one line."""
    try:
        main()
    except OSError as e:
        raise SystemExit(f"{e.filename}: {e.strerror}") from None


def fill(module, path, otherwise="want one of the demo's"):
    """Fills a module from a training checkpoint; returns what else is in there. A misfit ends the script, with advice."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        weights = state.pop("model")
    except OSError:
        raise
    except Exception:
        raise SystemExit(f"{path} is no checkpoint of these recipes: want a .pt that one of them wrote") from None
    try:
        module.load_state_dict(weights)
    except RuntimeError as e:
        misfit = str(e).splitlines()[:2][-1].strip()
        raise SystemExit(f"{path} is a checkpoint of another shape: {otherwise}. {misfit[:120]}") from None
    return state


class Chunks:
    """Token chunks in a seeded order without repetition inside an epoch."""

    def __init__(self, tokens, seed):
        self.tokens, self.seed = tokens, seed
        self.count = (len(tokens) - 1) // CHUNK
        if self.count < 1:
            raise SystemExit(f"{len(tokens)} tokens are too few to train on: want at least {CHUNK + 1}, better millions")
        self.epoch, self.order = -1, None

    def rows(self, first, n, length):
        """n chunks from number `first` of the endless order on, as rows [n*CHUNK/length, length+1] of int64."""
        out = []
        for i in range(first, first + n):
            epoch = i // self.count
            if epoch != self.epoch:
                self.epoch = epoch
                self.order = np.random.default_rng([self.seed, epoch]).permutation(self.count)
            at = int(self.order[i % self.count]) * CHUNK
            for o in range(at, at + CHUNK, length):
                out.append(self.tokens[o : o + length + 1].astype(np.int64))
        return torch.from_numpy(np.stack(out)).to(device())


class Mixture:
    """Chunks of real text and of the target's own samples, in a fixed proportion per batch."""

    def __init__(self, folder, seed, samples=None, share=0.0):
        self.text = Chunks(np.load(os.path.join(folder, "train.npy"), mmap_mode="r"), seed)
        self.samples = Chunks(np.load(samples, mmap_mode="r"), seed + 1) if samples else None
        self.share = share if samples else 0.0

    def batch(self, step, chunks, length):
        """The batch of one step, [chunks*CHUNK/length, length+1]."""
        own = round(chunks * self.share)
        parts = [self.text.rows(step * (chunks - own), chunks - own, length)]
        if own:
            parts.append(self.samples.rows(step * own, own, length))
        return torch.cat(parts)


def newton_schulz(g):
    """The nearest semi-orthogonal matrix to g, roughly (five quintic Newton-Schulz steps)."""
    x = g.to(product_dtype())
    flip = x.shape[0] > x.shape[1]
    if flip:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.T if flip else x).float()


class Muon(torch.optim.Optimizer):
    """Momentum orthogonalized by Newton-Schulz (Jordan et al. 2024), scaled to AdamW's update size (Liu et al. 2025)."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.1):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].mul_(group["momentum"]).add_(p.grad)
                update = newton_schulz(p.grad.add(m, alpha=group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def optimizers(module, lr, matrix_lr):
    """Muon for the matrices inside, AdamW for embeddings and norms."""
    named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
    matrices = [p for n, p in named if p.dim() == 2 and "embed_tokens" not in n]
    rest = [p for n, p in named if p.dim() == 2 and "embed_tokens" in n]
    norms = [p for n, p in named if p.dim() < 2]
    groups = [{"params": rest, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    opts = [torch.optim.AdamW([g for g in groups if g["params"]], lr, betas=(0.9, 0.95))]
    if matrices:
        opts.append(Muon(matrices, matrix_lr))
    for o in opts:
        for g in o.param_groups:
            g["base"] = g["lr"]
    return opts


def rate(step, steps, warm=0.02):
    """The share of the learning rate at a step: linear up, then linear to zero."""
    up = max(1, int(steps * warm))
    return min((step + 1) / up, max(0.0, (steps - step) / max(1, steps - up)))


def save(path, obj):
    """Writes a checkpoint so that an interruption leaves the old one."""
    torch.save(obj, path + ".part")
    os.replace(path + ".part", path)


def train(name, module, loss_of, steps, work, lr, matrix_lr, every=50, keep=500, report=None):
    """Runs the loop: loss_of(step) -> (loss, tokens). Resumes from work/name.pt; returns when it is done.

    report(step) is called with every kept checkpoint, for a held-out figure in the log.
    """
    os.makedirs(work, exist_ok=True)
    path = os.path.join(work, name + ".pt")
    opts = optimizers(module, lr, matrix_lr)
    step, tokens, spent = 0, 0, 0.0
    if os.path.exists(path):
        state = fill(module, path, "it cannot be resumed, give another --work")
        for o, s in zip(opts, state["optimizers"]):
            o.load_state_dict(s)
        step, tokens, spent = state["step"], state["tokens"], state["spent"]
        print(f"{name}: resuming at step {step}", flush=True)
    size = sum(p.numel() for p in module.parameters() if p.requires_grad)
    print(f"{name}: {size} parameters, {steps} steps", flush=True)
    began, first, losses = time.time(), step, []
    while step < steps:
        share = rate(step, steps)
        for o in opts:
            for g in o.param_groups:
                g["lr"] = g["base"] * share
        loss, n = loss_of(step)
        for o in opts:
            o.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for o in opts:
            o.step()
        step, tokens = step + 1, tokens + n
        losses.append(loss.item())
        if step % every == 0 or step == steps:
            took = time.time() - began
            left = took / (step - first) * (steps - step)
            mean = sum(losses) / len(losses)
            losses = []
            print(
                f"{name}: step {step}/{steps} tokens {tokens / 1e6:.2f}M loss {mean:.4f} "
                f"{took / (step - first) * 1e3:.0f} ms/step, {left / 60:.1f} min left",
                flush=True,
            )
        if step % keep == 0 or step == steps:
            state = {"model": module.state_dict(), "optimizers": [o.state_dict() for o in opts]}
            state |= {"step": step, "tokens": tokens, "spent": spent + time.time() - began}
            save(path, state)
            if report:
                report(step)
    return module


def load_meta(folder):
    """meta.json of a data directory."""
    with open(os.path.join(folder, "meta.json")) as f:
        return json.load(f)
