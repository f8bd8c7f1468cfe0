#!/usr/bin/env python3
"""Asks llama.cpp what model/llamacpp_test.go compares this engine with.

    pip install llama-cpp-python
    python model/testdata/ask_llamacpp.py MODEL.gguf README.md docs/*.md LICENSE > DIR/NAME.json
    SURMISE_LLAMACPP=DIR go test ./model -run LlamaCpp -v

NAME is the folder of the checkpoint under the models folder. The answer has
20 prompts with 256 greedy tokens each and, for the first 2,000 tokens of the
texts, the log probability of the token that comes next and of the 20 likeliest.
"""

import json
import sys

import numpy as np
from llama_cpp import Llama, llama_get_logits_ith

PROMPTS = [
    "The lighthouse keeper climbed the stairs every evening to light the lamp.",
    "Photosynthesis is the process by which plants",
    "def fibonacci(n):\n    ",
    "Dear Sir or Madam,\n\nI am writing to",
    "The three states of matter are",
    "Once upon a time, in a village by the sea,",
    "To bake bread you need flour, water, salt and",
    "import numpy as np\n\ndef softmax(x):\n",
    "In 1969, for the first time in history,",
    "The main difference between a frog and a toad is",
    "Q: What is the tallest mountain on Earth?\nA:",
    "A list of things to pack for a week in the mountains:\n1.",
    "The stock market fell sharply on Monday after",
    "When water is heated to 100 degrees Celsius,",
    "SELECT name, age FROM users WHERE",
    "Shakespeare wrote many plays, among them",
    "The patient complained of headaches and",
    "{\"name\": \"Alice\", \"age\": 30, \"city\":",
    "Translate to French: The cat sits on the table.\n",
    "My favourite season is autumn, because",
]


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def main():
    path = sys.argv[1]
    text = "\n".join(open(f, encoding="utf-8").read() for f in sys.argv[2:])
    llama = Llama(path, n_ctx=2100, n_threads=1, n_batch=64, verbose=False)
    vocab = llama.n_vocab()

    def evaluate(tokens):
        """The scores behind the last token."""
        llama.eval(tokens)
        return np.ctypeslib.as_array(llama_get_logits_ith(llama.ctx, -1), (vocab,))

    answers = []
    for prompt in PROMPTS:
        llama.reset()
        tokens = llama.tokenize(prompt.encode(), add_bos=True)
        scores, out = evaluate(tokens), []
        for _ in range(256):
            out.append(int(scores.argmax()))
            scores = evaluate(out[-1:])
        answers.append(dict(prompt=tokens, greedy=out))
        print(len(answers), "of", len(PROMPTS), "prompts", file=sys.stderr)

    llama.reset()
    tokens = llama.tokenize(text.encode(), add_bos=True)[:2001]
    nexts, tops = [], []
    for i in range(len(tokens) - 1):
        p = log_softmax(evaluate(tokens[i:i + 1]))
        nexts.append(float(p[tokens[i + 1]]))
        top = np.argpartition(-p, 20)[:20]
        tops.append([[int(t), float(p[t])] for t in top])
    json.dump(dict(answers=answers, text=dict(tokens=tokens, next=nexts, top=tops)), sys.stdout)


if __name__ == "__main__":
    main()
