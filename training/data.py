"""Tokenizer and token files for the demo family, made from the Go standard library.

Every machine that builds surmise has `$(go env GOROOT)/src`, and its licence allows training on it, so nothing is
downloaded. Licence headers, generated files, tests, vendored code and test data are left out. Whole packages are held
out (`HELD_OUT`): evaluation text never shares a file, nor a package, with training text.

Written to the output directory:

    tokenizer.json   byte-level BPE in the layout of Qwen2's (same pre-tokenizer pattern, NFC), 4,096 entries with specials
    train.npy        uint16 token ids of all training files in a seeded order, each file ended by <|endoftext|>
    held.npy         the same for the held-out packages, in path order
    held.txt         the held-out text itself (for baselines that count bytes)
    meta.json        counts, bytes per token, special ids

    python data.py OUT_DIR
"""

import json
import os
import random
import re
import subprocess
import sys

import numpy as np

HELD_OUT = ("encoding/", "text/template/", "net/mail/", "archive/", "go/printer/", "compress/flate/")
VOCAB = 4096
SPECIALS = ["<|endoftext|>", "<|mask|>", "<|pad|>"]
# Qwen2's pattern, so that every loader which knows Qwen2 splits text as we do.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GENERATED = re.compile(r"^// Code generated .* DO NOT EDIT\.$", re.M)
LICENCE = re.compile(r"^// Copyright.*?\n\n", re.S)
MAX_FILE = 200_000  # larger files are tables


def go_root():
    """The source root of the installed Go distribution."""
    root = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    return os.path.join(root, "src")


def files(root):
    """Yields (path relative to root, text) of every hand-written Go file, in path order."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        rel = os.path.relpath(folder, root) + "/"
        if "testdata/" in rel or "vendor/" in rel:
            continue
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(".go") or name.endswith("_test.go") or os.path.getsize(path) > MAX_FILE:
                continue
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
            if GENERATED.search(text):
                continue
            yield rel + name, LICENCE.sub("", text, count=1)


def split(root, seed=1):
    """Training texts in a seeded order, and held-out texts in path order."""
    train, held = [], []
    for path, text in files(root):
        (held if path.startswith(HELD_OUT) else train).append(text)
    random.Random(seed).shuffle(train)
    return train, held


def train_tokenizer(texts):
    """A byte-level BPE of VOCAB entries; the specials take the last ids."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tok = Tokenizer(models.BPE(byte_fallback=False, fuse_unk=False))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tok.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tok.train_from_iterator(texts, trainer)
    tok.add_special_tokens(SPECIALS)
    if tok.get_vocab_size() != VOCAB:
        raise SystemExit(f"tokenizer has {tok.get_vocab_size()} entries, want {VOCAB}: too little text under GOROOT?")
    return tok


def encode(tok, texts):
    """All texts as one uint16 array, each text ended by <|endoftext|>."""
    end = tok.token_to_id(SPECIALS[0])
    out = []
    for i in range(0, len(texts), 256):
        for enc in tok.encode_batch(texts[i : i + 256], add_special_tokens=False):
            out.append(np.array(enc.ids + [end], dtype=np.uint16))
    return np.concatenate(out)


def main(out):
    """Makes everything listed in the module's description, unless it is there."""
    os.makedirs(out, exist_ok=True)
    if os.path.exists(os.path.join(out, "meta.json")):
        print("data: present in", out)
        return
    train, held = split(go_root())
    print(f"data: {len(train)} training files, {len(held)} held out; training the tokenizer", flush=True)
    tok = train_tokenizer(train)
    tok.save(os.path.join(out, "tokenizer.json"))
    a, b = encode(tok, train), encode(tok, held)
    np.save(os.path.join(out, "train.npy"), a)
    np.save(os.path.join(out, "held.npy"), b)
    with open(os.path.join(out, "held.txt"), "w", encoding="utf-8") as f:
        f.write("".join(held))
    held_bytes = sum(len(t.encode()) for t in held)
    meta = {
        "train_files": len(train),
        "held_files": len(held),
        "train_tokens": int(len(a)),
        "held_tokens": int(len(b)),
        "held_bytes": held_bytes,
        "bytes_per_token": held_bytes / len(b),
        "eos": tok.token_to_id(SPECIALS[0]),
        "mask": tok.token_to_id(SPECIALS[1]),
        "pad": tok.token_to_id(SPECIALS[2]),
    }
    with open(os.path.join(out, "meta.json"), "w") as f:
        json.dump(meta, f, indent=1)
    print("data:", json.dumps(meta), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    main(sys.argv[1])
