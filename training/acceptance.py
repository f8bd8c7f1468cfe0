"""Mean acceptance length of drafters on what the target writes, by simulation of the engine's rounds.

The target continues held-out prompts; the noise of every sampled position is kept, because a drafter at T > 0 proposes
with the same noise. For every position of a stream the drafter's chain from there is computed (all chains of a stream
at once, each seeing exactly what it would at work), then the rounds are walked: accepted proposals and the bonus token
are jumped over. Mean acceptance length = 1 + accepted / rounds with a proposal.
"""

import numpy as np
import torch

from model import attend, attend_chained, rope_table
from sample import distinct, generate, gumbel


class Looping(SystemExit):
    """There is no stream to measure on."""


class Streams:
    """Target continuations x [R, P+G] of held-out prompts, with the target's hiddens and the sampling noise.

    Prompts are tried in a seeded order until `want` continuations do not loop (distinct 4-grams >= least) or `want` * 8
    were tried: a small target loops easily under greedy decoding, and looping streams flatter every drafter.
    """

    def __init__(self, target, held, want, prompt, length, temperature, taps, seed, least=0.7):
        self.prompt, self.length, self.temperature = prompt, length, temperature
        starts = np.linspace(0, len(held) - prompt - 1, want * 8).astype(int)
        np.random.default_rng(seed).shuffle(starts)
        gen = torch.Generator().manual_seed(seed)
        hot = temperature > 0
        kept, noises, ratios = [], [], []
        for i in range(0, len(starts), 64):
            p = np.stack([held[s : s + prompt] for s in starts[i : i + 64]]).astype(np.int64)
            p = torch.from_numpy(p)
            noise = gumbel((length, len(p), target.config.vocab_size), gen, p.device) if hot else None
            t = torch.full((len(p),), float(temperature))
            x = generate(target, p, prompt + length, t, gen, (lambda j: noise[j]) if hot else lambda j: 0.0)
            ratio = np.array([distinct(r[prompt:]) for r in x.tolist()])
            good = torch.from_numpy(ratio >= least)
            ratios.append(ratio)
            kept.append(x[good])
            noises.append(noise[:, good] if hot else None)
            if sum(len(k) for k in kept) >= want:
                break
        self.ratio = np.concatenate(ratios)
        self.x = torch.cat(kept)[:want]
        self.noise = torch.cat(noises, 1)[:, :want] if hot else None
        if len(self.x) == 0:
            raise Looping(f"all {len(self.ratio)} continuations loop at T = {temperature}")
        self.hidden, self.taps = target.features(self.x, taps)

    def chains(self, most):
        """(index of the first chain's pending token, number of chains per row), `most` proposals each."""
        return self.prompt - 1, self.length - most + 1

    def pick(self, logits, step):
        """What a drafter proposes as number `step` of every chain, from its logits [R, A, V]."""
        if self.noise is None:
            return logits.argmax(-1)
        noise = self.noise[step : step + logits.shape[1]].transpose(0, 1)
        return (logits / self.temperature + noise).argmax(-1)


def draft_chains(model, s, most):
    """Proposals [R, A, most] of an ordinary draft model."""
    first, count = s.chains(most)
    c, h = model.config, model.embed(s.x)
    rope = rope_table(torch.arange(s.x.shape[1]), c.head_dim, c.rope_theta, h.dtype)
    keys, values = [], []
    for layer in model.model.layers:
        u = layer.input_layernorm(h)
        q, _ = layer.self_attn.queries(u, rope)
        k, v = layer.self_attn.keys_values(u, rope)
        keys.append([k])
        values.append([v])
        h = layer.finish(h, attend(q, k, v, causal=True))
    out = [s.pick(model.head(model.model.norm(h[:, first : first + count])), 0)]
    seen = visible(first + torch.arange(count), s.x.shape[1])
    for j in range(1, most):
        h = model.embed(out[-1])
        rope = rope_table(first + j + torch.arange(count), c.head_dim, c.rope_theta, h.dtype)
        for i, layer in enumerate(model.model.layers):
            u = layer.input_layernorm(h)
            q, _ = layer.self_attn.queries(u, rope)
            k, v = layer.self_attn.keys_values(u, rope)
            keys[i].append(k)
            values[i].append(v)
            h = layer.finish(h, attend_chained(q, keys[i], values[i], seen))
        out.append(s.pick(model.head(model.model.norm(h)), j))
    return torch.stack(out, -1)


def mtp_chains(head, target, s, most):
    """Proposals [R, A, most] of an MTP head."""
    first, count = s.chains(most)
    layer, at = head.layers[0], head.layers[0].self_attn
    e, h = target.embed(s.x)[:, 1:], s.hidden[:, :-1]
    entry = first - 1  # entry i consumes token i+1
    keys, values, out = [], [], []
    seen = visible(entry + torch.arange(count), e.shape[1])
    for j in range(most):
        x = head.inputs(e, h)
        u = layer.input_layernorm(x)
        rope = head.rope(torch.arange(e.shape[1]) if j == 0 else entry + j + torch.arange(count), x.dtype)
        q, gate = at.queries(u, rope)
        k, v = at.keys_values(u, rope)
        keys.append(k)
        values.append(v)
        a = attend(q, k, v, causal=True) if j == 0 else attend_chained(q, keys, values, seen)
        y = head.norm(layer.finish(x, a, gate))
        if j == 0:
            y = y[:, entry : entry + count]
        out.append(s.pick(target.head(y), j))
        e, h = target.embed(out[-1]), y
    return torch.stack(out, -1)


def dflash_chains(drafter, target, s, most):
    """Proposals [R, A, block-1] of a DFlash drafter."""
    first, count = s.chains(most)
    starts = first + torch.arange(count)
    mask = target.embed(torch.tensor([drafter.mask_token]))[0]
    out = []
    for r in range(0, len(s.x), 4):
        rows = slice(r, r + 4)
        y = drafter(drafter.context([t[rows] for t in s.taps]), starts, target.embed(s.x[rows][:, starts]), mask)
        out.append(y[:, :, 1:])
    y = torch.cat(out)
    return torch.stack([s.pick(target.head(y[:, :, j]), j) for j in range(most)], -1)


def lookup_chains(s, most, longest=8, shortest=2):
    """Proposals of prompt lookup, a list per row and chain: what followed the latest longest suffix match."""
    first, count = s.chains(most)
    out = []
    for row in s.x.tolist():
        latest, chains = {}, []
        for a in range(first + count):
            if a >= first:
                found = next((latest[n, g] for n in range(longest, shortest - 1, -1)
                              if (n, g := tuple(row[a + 1 - n : a + 1])) and (n, g) in latest), None)
                chains.append(row[found : min(found + most, a + 1)] if found is not None else [])
            for n in range(shortest, min(longest, a + 1) + 1):
                latest[n, tuple(row[a + 1 - n : a + 1])] = a + 1
        out.append(chains)
    return out


def visible(last, length):
    """Additive mask [A, length]: keys up to last [A] are seen."""
    return torch.zeros(len(last), length).masked_fill(torch.arange(length)[None] > last[:, None], float("-inf"))


def walk(s, proposals, most):
    """Walks the rounds. Returns (mean acceptance length, share accepted per position, share of rounds with a proposal)."""
    first, count = s.chains(most)
    rounds = drafted = 0
    hits = np.zeros(most)
    x = s.x.tolist()
    rows = proposals.tolist() if torch.is_tensor(proposals) else proposals
    for row, chains in zip(x, rows):
        i = 0
        while i < count:
            n = 0
            while n < len(chains[i]) and chains[i][n] == row[first + i + 1 + n]:
                n += 1
            rounds += 1
            drafted += bool(chains[i])
            hits[:n] += 1
            i += n + 1
    curve = hits / max(1, drafted)
    return 1 + curve.sum(), curve, drafted / rounds
