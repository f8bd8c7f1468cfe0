"""Evaluates an exported demo family on the held-out packages and prints Markdown.

    python eval.py --family DIR --data DIR [--only bits,acceptance,prompts,completions,transformers]
"""

import gzip
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

import acceptance
import common
import layouts
import targets

PROMPTS = [
    "func main() {\n",
    "// Reverse returns a copy of s with its bytes in reverse order.\nfunc Reverse(s []byte) []byte {\n",
    "func (s *Stack) Push(v int) {\n",
    "type Config struct {\n\tName string\n",
    "package queue\n\nimport (\n\t\"errors\"\n",
    "\tif err != nil {\n",
    "func max(a, b int) int {\n",
    "\tfor i := 0; i < len(names); i++ {\n",
    "// ReadAll reads from r until an error or EOF and returns the data it read.\n",
    "func (c *Client) Close() error {\n\tc.mu.Lock()\n",
]


@torch.no_grad()
def bits_per_byte(model, held, bytes_per_token, length=1024):
    """Over all held-out tokens, rows of `length`, the first token of each row not counted."""
    total = n = 0
    for s in range(0, len(held) - 1, 8 * length):
        part = held[s : s + 8 * length + 1].astype(np.int64)
        rows = (len(part) - 1) // length
        if rows == 0:
            break
        x = torch.from_numpy(part[: rows * length + 1])
        logits = model(x[:-1].view(rows, length))
        total += F.cross_entropy(logits.flatten(0, 1), x[1:], reduction="sum").item()
        n += rows * length
    return total / n / math.log(2) / bytes_per_token


def bigram_bits(train, held, bytes_per_token, vocab):
    """A Witten-Bell bigram over the same tokens."""
    a = train.astype(np.int64)
    pairs = np.bincount(a[:-1] * vocab + a[1:], minlength=vocab * vocab).reshape(vocab, vocab)
    total, types = pairs.sum(1), (pairs > 0).sum(1)
    unigram = (np.bincount(a, minlength=vocab) + 1) / (len(a) + vocab)
    x, y = held[:-1].astype(np.int64), held[1:].astype(np.int64)
    p = (pairs[x, y] + types[x] * unigram[y]) / np.maximum(1, total[x] + types[x])
    return -np.log2(np.maximum(p, unigram[y] * 1e-3)).mean() / bytes_per_token


def report_bits(family, data, meta):
    """Prints held-out bits per byte."""
    held, train = (np.load(os.path.join(data, n)) for n in ("held.npy", "train.npy"))
    bpt = meta["bytes_per_token"]
    with open(os.path.join(data, "held.txt"), "rb") as f:
        text = f.read()
    rows = []
    for name in ("target", "draft"):
        folder = os.path.join(family, name)
        if os.path.isdir(folder):
            rows.append((name, bits_per_byte(targets.load_qwen3(folder), held, bpt)))
    rows.append(("bigram (Witten-Bell, same tokens)", bigram_bits(train, held, bpt, 4096)))
    rows.append(("gzip -9", 8 * len(gzip.compress(text, 9)) / len(text)))
    print(f"| held-out Go, {len(text)} bytes | bits per byte |\n|---|---|")
    for name, bits in rows:
        print(f"| {name} | {bits:.3f} |", flush=True)
    print()


@torch.no_grad()
def report_acceptance(family, data, rows, prompt, length):
    """Prints mean acceptance lengths, greedy and at T = 0.8."""
    held = np.load(os.path.join(data, "held.npy"))
    target = targets.load(os.path.join(family, "target"), torch.device("cpu"))
    at = lambda name: os.path.join(family, name)
    dflash = layouts.load_dflash(at("dflash")) if os.path.isdir(at("dflash")) else None
    print("| drafter | T | mean acceptance length | accepted by position | rounds with a proposal |\n|---|---|---|---|---|")
    notes = []
    for temperature in (0.0, 0.8):
        try:
            s = acceptance.Streams(target, held, rows, prompt, length, temperature, dflash.taps if dflash else (), 5)
        except acceptance.Looping as none:  # as after a few steps of training
            notes.append(str(none))
            continue
        good = s.ratio[s.ratio >= 0.7]
        notes.append(
            f"T = {temperature}: {len(s.x)} streams that do not loop, out of {len(s.ratio)} tried "
            f"({len(good)} of those with distinct 4-grams ≥ 0.7, on average {good.mean():.2f}; over all {s.ratio.mean():.2f})"
        )
        runs = []
        if os.path.isdir(at("draft")):
            runs.append(("full-model", 7, lambda: acceptance.draft_chains(targets.load_qwen3(at("draft")), s, 7)))
        if os.path.isdir(at("mtp")):
            runs.append(("mtp", 4, lambda: acceptance.mtp_chains(layouts.load_mtp(at("mtp")), target, s, 4)))
        if dflash:
            runs.append(("dflash", dflash.block - 1, lambda: acceptance.dflash_chains(dflash, target, s, dflash.block - 1)))
        runs.append(("prompt-lookup", 7, lambda: acceptance.lookup_chains(s, 7)))
        for name, most, chains in runs:
            mean, curve, share = acceptance.walk(s, chains(), most)
            print(f"| {name} | {temperature} | {mean:.2f} | {' '.join(f'{c:.2f}' for c in curve)} | {share:.2f} |", flush=True)
    print("\n" + "; ".join(notes) + f". Prompts of {prompt} tokens, continuations of {length}.\n")


@torch.no_grad()
def report_prompts(family, data, rows, prompt, length):
    """Prints the prompts of the greedy acceptance streams, parted by lines of ---, for `surmise bench --data`."""
    from tokenizers import Tokenizer

    folder = os.path.join(family, "target")
    target = targets.load(folder, torch.device("cpu"))
    s = acceptance.Streams(target, np.load(os.path.join(data, "held.npy")), rows, prompt, length, 0.0, (), 5)
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    print("\n---\n".join(tok.decode(x[:prompt]) for x in s.x.tolist()))


def report_completions(family, temperature, tokens):
    """Prints a completion of every prompt."""
    from tokenizers import Tokenizer

    from sample import generate

    folder = os.path.join(family, "target")
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    end = tok.token_to_id("<|endoftext|>")
    target = targets.load(folder, torch.device("cpu"))
    gen = torch.Generator().manual_seed(1)
    for text in PROMPTS:
        x = torch.tensor([tok.encode(text, add_special_tokens=False).ids])
        y = generate(target, x, x.shape[1] + tokens, torch.tensor([temperature]), gen)[0].tolist()[x.shape[1] :]
        if end in y:
            y = y[: y.index(end)]
        print("```go\n" + text + "‸" + tok.decode(y) + "\n```\n", flush=True)


@torch.no_grad()
def report_transformers(family, tokens=64):
    """Compares greedy decoding with Transformers' own Qwen3, both in f32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sample import generate

    folder = os.path.join(family, "target")
    tok = AutoTokenizer.from_pretrained(folder)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ours = targets.load(folder, torch.device("cpu"))
    same = 0
    for text in PROMPTS:
        x = torch.tensor([tok(text)["input_ids"]])
        a = theirs.generate(x, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)[0]
        # min_new_tokens keeps Transformers from stopping; it masks the end token, so ours does too, here.
        b = generate(NoEnd(ours, tok.eos_token_id), x, x.shape[1] + tokens, torch.zeros(1), torch.Generator())[0]
        if torch.equal(a, b):
            same += 1
            continue
        i = int((a != b).nonzero()[0])
        top = ours.head(ours.features(b[None, :i])[0])[0, -1].topk(2).values
        print(f"prompt {text!r}: differs at token {i - x.shape[1]}, where the two best logits are {top[0] - top[1]:.2g} apart")
    logits = (theirs(x).logits - ours.head(ours.features(x)[0])).abs().max().item()
    print(f"Transformers gives the same {tokens} greedy tokens on {same} of {len(PROMPTS)} prompts; "
          f"largest logit difference {logits:.2g}.\n")


class NoEnd:
    """A target that never ends."""

    def __init__(self, target, end):
        self.target, self.end, self.start = target, end, target.start

    def step(self, x, cache, at):
        """Logits with the end token masked."""
        logits = self.target.step(x, cache, at)
        logits[:, self.end] = float("-inf")
        return logits


def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--family", required=True, help="directory with target/ and drafters")
    p.add_argument("--data", required=True, help="directory that data.py made")
    p.add_argument("--only", default="bits,acceptance,completions,transformers", help="parts, parted by commas; prompts is one too")
    p.add_argument("--rows", type=common.count, default=48, help="streams per temperature")
    p.add_argument("--prompt", type=common.count, default=128, help="tokens of held-out code before each continuation")
    p.add_argument("--length", type=common.count, default=64, help="tokens of a continuation")
    p.add_argument("--temperature", type=common.weight, default=0.5, help="of the completions")
    p.add_argument("--tokens", type=common.count, default=80, help="of the completions")
    args = p.parse_args()
    wanted = args.only.split(",")
    if "bits" in wanted:
        report_bits(args.family, args.data, common.load_meta(args.data))
    if "acceptance" in wanted:
        report_acceptance(args.family, args.data, args.rows, args.prompt, args.length)
    if "prompts" in wanted:
        report_prompts(args.family, args.data, args.rows, args.prompt, args.length)
    if "completions" in wanted:
        report_completions(args.family, args.temperature, args.tokens)
    if "transformers" in wanted:
        report_transformers(args.family)


if __name__ == "__main__":
    common.run(main)
