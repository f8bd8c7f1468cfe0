#!/usr/bin/env python3
"""Makes the test strings, the tiny tokenizers and the expected ids of this folder.

    pip install tokenizers sentencepiece gguf
    sh fetch_oracles.sh                 # real tokenizer files, into the cache
    python3 make_oracles.py             # strings.json, tiny files, expected/*.txt
    python3 make_oracles.py --count 20000 --seed 7 --out /somewhere   # a large set

The oracle is Hugging Face's own `tokenizers` library (and `sentencepiece` for
tokenizer.model). A table holds, per string of strings.json, the first digits of
three SHA-256: of its ids as little-endian int32, with special tokens parsed and
the model's own ones added, as `tokenizers` does by default; of the text those
ids decode to without special tokens; and of the text of twelve arbitrary ids
("-" where the library's byte fallback replaces whole runs of bytes).
SmolLM2 has no package with its tokenizer.json: it is written out from the
GGUF's vocabulary, with the pre-tokenizer its published file has.
"""
import argparse, copy, hashlib, io, json, os, random, struct, unicodedata
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "surmise"
REAL = ["qwen3", "llama3_1", "gemma3", "llama2", "gptoss", "deepseek_v3", "smollm2"]

HAND = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", " \n ", "\t", "\r\n", "\r\n\r\n  x", "a", "Hello, world!", " Hello", "Hello ",
    "  Hello  world  ", "I'm you're he's we'll they'd I've can't DON'T WE'LL o'clock 'tis 'ſ it'ſ", "''s 'S 'LL 'lL",
    "123456789 1 12 123 1234 3.14159 1,000,000", "٣٤٥٦ ½ ² Ⅷ ㊿ 一二三", "x1y2z3", "def f(x):\n    return x ** 2  # comment\n\n\n",
    "\tif (a && b) { return a/b; }\r\n\t\t// done/\n/\n", "{\"key\": [1, 2.5e-3, null], \"ключ\": \"значение\"}", "CamelCaseWordsHTTPServer iPhone XMLHttpRequest ÉCOLE École",
    "naïve café co\u0302te\u0301 e\u0301\u0323 \u1e9b\u0323", "a" + "\u0301" * 40 + "b", "\u0323\u0301" * 20, "q\u0307\u0323", "한국어 조선말 \u1112\u1161\u11ab\u1100\u1173\u11af", "日本語のテキスト、カタカナ。漢字かな交じり文",
    "中文 测试,没有空格的句子。", "ภาษาไทย ไม่มีช่องว่าง", "हिन्दी में पाठ", "العربية نص ١٢٣", "עברית", "ქართული ᲥᲐᲠᲗᲣᲚᲘ", "ǅ ǈ ǋ Dž ʰʲ ªº", "🙂👩‍👩‍👧‍👦🏳️‍🌈 👍🏽 ☺️ ♥",
    "zero\u200bwidth\u200d\ufeff nbsp\u00a0thin\u2009em\u2003ideographic\u3000end\u2028line\u2029para\u0085nel", "\u00a0\u00a0x\u00a0", "\x00\x01\x1f\x7f\x80\x9f", "ﬁ ﬀ ﬆ ℌ ① ｆｕｌｌ ㍿", "a/b//c///\n//\n/x", "...!!!???---===###", "!a ?b (c) [d] {e} <f> ~g `h` @i #j $k %l ^m &n *o +p =q |r \\s ;t :u",
    "<s>text</s>", "<|im_start|>user\nhi<|im_end|>\n", "<|begin_of_text|><|eot_id|>", "<start_of_turn>user\n<bos>x<end_of_turn>", "<think>\nok\n</think>", "<｜begin▁of▁sentence｜>", "▁ ▁▁ a▁b", "<unk><pad>", "<0x0A> <0x41>",
    "<mask> x<mask>y  <mask>  z", "a <end>  b<end>c <end>", "TOOL TOOLs aTOOL a TOOL. _TOOL -TOOL-", "NORMé NORM\u0301 NORM", "<sep>a<sep> b",
    "a" * 300, "ab" * 200, "x " * 100, " " * 70 + "x" + " " * 33, "\n" * 45, "\t" * 40, "aaaaaaaabbbbbbbb" * 30, "ħ" * 100, "—" * 80, "Ω" * 33 + " " + "Ω" * 34, "0" * 100,
    "https://example.com/a?b=c&d=%20e#f", "e\u0301" * 30, "\U0001d400\U0001d7ce\U00010400\U00010428\U00016800\U0001f1e9\U0001f1ea", "ÀÈÌàèì ŉ ß ẞ ı İ", "a\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307z",
]


def classes():
    by = {}
    for cp in range(0x110000):
        if 0xD800 <= cp <= 0xDFFF:
            continue
        c = chr(cp)
        cat = unicodedata.category(c)
        if cat not in ("Cn", "Co"):
            by.setdefault(cat, []).append(c)
    return by


def strings(count, seed):
    rnd = random.Random(seed)
    by = classes()
    cats = sorted(by)
    ascii_ = [chr(c) for c in range(32, 127)]
    words = ["the", "The", "hello", " world", "'s", "'RE", "don't", " 12", "3456", "\n", "\r\n", "  ", " ", "\t", "naïve", "été", "日本", "привет", " Мир", "한글", "😀", "e\u0301", "//", "/\n", "!!", "<s>", "<|im_end|>", "<mask>", "TOOL", "NORM", "▁", "\u3000", "\u00a0", "\u0085", "İ", "ſ", "K", "ﬁ", "\u1112\u1161\u11ab"]

    def one():
        kind = rnd.randrange(6)
        n = rnd.randrange(1, 24)
        if kind == 0:  # all classes evenly
            return "".join(rnd.choice(by[rnd.choice(cats)]) for _ in range(n))
        if kind == 1:  # two classes and spaces
            a, b = rnd.choice(cats), rnd.choice(cats)
            return "".join(rnd.choice(by[rnd.choice([a, b, "Zs"])]) if rnd.random() < 0.9 else " " for _ in range(n))
        if kind == 2:
            return "".join(rnd.choice(ascii_) for _ in range(2 * n))
        if kind == 3:
            return "".join(rnd.choice(words) for _ in range(n))
        if kind == 4:  # white space, breaks and what borders on them
            return "".join(rnd.choice([" ", " ", "\n", "\r", "\t", "a", "A", "1", ".", "/", "'", "é", "\u0301", "\u2003", "\u200b"]) for _ in range(n))
        return "".join(rnd.choice(words + ascii_ + [rnd.choice(by[rnd.choice(cats)])]) for _ in range(n))

    every = [c for cat in cats for c in by[cat]] if count >= 10000 else []
    around = ["".join(f"a{c}1 {c}{c}. {c}B" for c in every[i:i + 8]) for i in range(0, len(every), 8)]
    return HAND + [one() for _ in range(count)] + around


def digest(data, n):
    return hashlib.sha256(data).hexdigest()[:n]


def write_table(path, encode, decode, vocab, texts, unk=None):
    """encode: text → ids; decode: ids → text; vocab: its size, or 0 to leave arbitrary ids out;
    unk: a token that the library writes as text of its own; it also strips typed marks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for i, s in enumerate(texts):
        ids = encode(s)
        anything = digest(decode([(i * 7919 + k * 104729) % vocab for k in range(12)]).encode(), 6) if vocab else "-"
        text = "-" if unk is not None and (unk in ids or "▁" in s) else digest(decode(ids).encode(), 6)
        rows.append(f"{digest(struct.pack('<%di' % len(ids), *ids), 10)} {text} {anything}\n")
    path.write_text("".join(rows))


def oracle(js):
    tok = Tokenizer.from_str(js if isinstance(js, str) else json.dumps(js))
    byte_level = "ByteLevel" in json.loads(tok.to_str())["decoder"]["type"]
    return lambda s: tok.encode(s).ids, lambda ids: tok.decode(ids), tok.get_vocab_size() if byte_level else 0


def corpus():
    text = Path(__file__).read_text()
    lines = text.splitlines() + HAND + ["the cat sat on the mat and the dog ate the other hat", "for i in range(n): return the value of the function"] * 20
    return [l for l in lines if l.strip() and len(l) < 200 and "TOOL" not in l]


def tiny_bytelevel():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=640, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    js = json.loads(tok.to_str())
    n = len(js["model"]["vocab"])
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    extra = [("<s>", {}), ("<|im_end|>", {}), ("<mask>", dict(lstrip=True)), ("<end>", dict(rstrip=True)), ("TOOL", dict(single_word=True, special=False)), ("NORM", dict(normalized=True, special=False)), ("<think>", dict(special=False))]
    js["added_tokens"] = [dict(id=n + i, content=c, **{**flags, **f}) for i, (c, f) in enumerate(extra)]
    js["decoder"] = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    js["post_processor"] = dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id="<s>", type_id=0)), dict(Sequence=dict(id="A", type_id=0))],
                                pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=1))], special_tokens={"<s>": dict(id="<s>", ids=[n], tokens=["<s>"])})
    return js


def train_sp(path, **kw):
    opts = dict(model_type="bpe", vocab_size=560, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, character_coverage=0.98, num_threads=1, minloglevel=2, user_defined_symbols=["<sep>", "▁▁▁"], train_extremely_large_corpus=False)
    opts.update(kw)
    model = io.BytesIO()  # not a prefix: its path would end up in the file
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, **opts)
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def sp_to_json(sp):
    """A Llama-2-like tokenizer.json of a SentencePiece model."""
    n = sp.get_piece_size()
    vocab = {sp.id_to_piece(i): i for i in range(n)}
    normal = {p: i for p, i in vocab.items() if not (sp.is_control(i) or sp.is_unknown(i) or sp.is_byte(i)) and p not in ("<sep>", "▁▁▁")}
    merges = []
    for p, i in normal.items():
        for k in range(1, len(p)):
            if p[:k] in normal and p[k:] in normal:
                merges.append((-sp.get_score(i), vocab[p[:k]], vocab[p[k:]], [p[:k], p[k:]]))
    merges = [m[3] for m in sorted(merges, key=lambda m: m[:3])]
    added = [dict(id=i, content=sp.id_to_piece(i), single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i in range(3)]
    added.append(dict(id=vocab["<sep>"], content="<sep>", single_word=False, lstrip=False, rstrip=False, normalized=False, special=False))
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added,
                normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="▁"), dict(type="Replace", pattern=dict(String=" "), content="▁")]),
                pre_tokenizer=None,
                post_processor=dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id="<s>", type_id=0)), dict(Sequence=dict(id="A", type_id=0)), dict(SpecialToken=dict(id="</s>", type_id=0))],
                                    pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=1))],
                                    special_tokens={"<s>": dict(id="<s>", ids=[1], tokens=["<s>"]), "</s>": dict(id="</s>", ids=[2], tokens=["</s>"])}),
                decoder=dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String="▁"), content=" "), dict(type="ByteFallback"), dict(type="Fuse"), dict(type="Strip", content=" ", start=1, stop=0)]),
                model=dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=True, byte_fallback=True, ignore_merges=False, vocab=vocab, merges=merges))


def split(regex):
    return dict(type="Split", pattern=dict(Regex=regex), behavior="Isolated", invert=False)


def byte_level(use_regex, **kw):
    return dict(dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=use_regex), **kw)


def sequence(*parts):
    return dict(type="Sequence", pretokenizers=list(parts))


CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?LETTERS+|DIGITS| ?[^\s\p{L}MARKS\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+CONTR|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*CONTR|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"


def cl100k(letters, digits, marks=""):
    return sequence(split(CL100K.replace("LETTERS", letters).replace("DIGITS", digits).replace("MARKS", marks)), byte_level(False))


def cased(contr, digits):
    return sequence(split(CASED.replace("CONTR", contr).replace("DIGITS", digits)), byte_level(False))


# Variants of tiny-bytelevel.json: what replaces its parts.
BYTELEVEL = {
    "gpt2": dict(),
    "gpt2-prefix-space": dict(pre_tokenizer=byte_level(True, add_prefix_space=True)),
    "smollm": dict(pre_tokenizer=sequence(dict(type="Digits", individual_digits=True), byte_level(True))),
    "llama3": dict(pre_tokenizer=cl100k(r"\p{L}", r"\p{N}{1,3}"), ignore_merges=True),
    "qwen2": dict(pre_tokenizer=cl100k(r"\p{L}", r"\p{N}"), normalizer=dict(type="NFC")),
    "qwen35": dict(pre_tokenizer=cl100k(r"[\p{L}\p{M}]", r"\p{N}", r"\p{M}"), normalizer=dict(type="NFC")),
    "o200k": dict(pre_tokenizer=cased(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}"), normalizer=dict(type="NFKC")),
    "tekken": dict(pre_tokenizer=cased("", r"\p{N}"), normalizer=dict(type="NFD")),
    "deepseek-v3": dict(pre_tokenizer=sequence(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), byte_level(False)), normalizer=dict(type="NFKD")),
}
# Variants of tiny-sentencepiece.json.
SENTENCEPIECE = {
    "prepend": dict(),
    "metaspace-first": dict(normalizer=None, pre_tokenizer=dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=False)),
    "metaspace-always-split": dict(normalizer=None, pre_tokenizer=dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)),
    "metaspace-never": dict(normalizer=None, pre_tokenizer=dict(type="Metaspace", replacement="▁", prepend_scheme="never", split=True)),
    "gemma": dict(normalizer=dict(type="Replace", pattern=dict(String=" "), content="▁"), pre_tokenizer=dict(type="Split", pattern=dict(String=" "), behavior="MergedWithPrevious", invert=False)),
    "no-byte-fallback": dict(byte_fallback=False),
    "no-fuse": dict(byte_fallback=False, fuse_unk=False),
}


def variant(base, changes):
    js = copy.deepcopy(base)
    for key, value in changes.items():
        (js["model"] if key in js["model"] else js)[key] = value
    return js


def smollm2():
    """Writes SmolLM2's tokenizer.json from the vocabulary of its GGUF."""
    out = CACHE / "tokenizers/smollm2/tokenizer.json"
    ggufs = sorted((CACHE / "models/smollm2-135m-instruct").glob("*.gguf"))
    if out.exists() or not ggufs:
        return
    from gguf import GGUFReader
    f = GGUFReader(ggufs[0]).fields
    tokens, types, merges = (f["tokenizer.ggml." + k].contents() for k in ("tokens", "token_type", "merges"))
    added = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, t in enumerate(tokens) if types[i] == 3]
    js = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=BYTELEVEL["smollm"]["pre_tokenizer"], post_processor=None, decoder=byte_level(True),
              model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(js, ensure_ascii=False))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--out", type=Path, default=HERE)
    args = ap.parse_args()
    texts = strings(args.count, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "strings.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0) + "\n")
    if args.out == HERE:
        (HERE / "tiny-bytelevel.json").write_text(json.dumps(tiny_bytelevel(), ensure_ascii=False, separators=(",", ":")))
        sp = train_sp(HERE / "tiny-sentencepiece.model")
        train_sp(HERE / "tiny-collapsing.model", remove_extra_whitespaces=True, user_defined_symbols=[], byte_fallback=False, vocab_size=300)
        (HERE / "tiny-sentencepiece.json").write_text(json.dumps(sp_to_json(sp), ensure_ascii=False, separators=(",", ":")))
        (HERE / "variants.json").write_text(json.dumps(dict(bytelevel=BYTELEVEL, sentencepiece=SENTENCEPIECE), ensure_ascii=False, indent=1) + "\n")
    for name in ("tiny-sentencepiece", "tiny-collapsing"):
        sp = sentencepiece.SentencePieceProcessor(model_file=str(HERE / (name + ".model")))
        write_table(args.out / f"expected/{name}.model.txt", lambda s: sp.encode(s, add_bos=True), sp.decode, 0, texts, sp.unk_id())
    for family, variants in (("bytelevel", BYTELEVEL), ("sentencepiece", SENTENCEPIECE)):
        base = json.loads((HERE / f"tiny-{family}.json").read_text())
        for name, changes in variants.items():
            write_table(args.out / f"expected/tiny-{family}.{name}.txt", *oracle(variant(base, changes)), texts)
    smollm2()
    for name in REAL:
        path = CACHE / f"tokenizers/{name}/tokenizer.json"
        if path.exists():
            write_table(args.out / f"expected/{name}.txt", *oracle(path.read_text()), texts)
        else:
            print(f"{name}: no {path}, table left as it is")


if __name__ == "__main__":
    main()
