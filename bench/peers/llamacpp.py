"""Serves requests of the command peers as the engine llama.cpp.

Arguments: flash attention (auto or off), GGUF file, threads, positions of the
cache, clock (wall or cpu). Requests and replies are lines of JSON; see agent.go.
"""

import ctypes
import json
import os
import sys
import time

import llama_cpp as L
import numpy as np


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, text, data):
    pass


def resident():
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


class Engine:
    def __init__(self, flash, path, threads, room, now):
        self.now = now
        mp = L.llama_model_default_params()
        mp.n_gpu_layers = 0
        self.model = L.llama_model_load_from_file(path.encode(), mp)
        if not self.model:
            raise RuntimeError(f"cannot load {path}")
        cp = L.llama_context_default_params()
        cp.n_ctx = (room + 255) // 256 * 256
        cp.n_batch = cp.n_ubatch = 512
        cp.n_threads = cp.n_threads_batch = threads
        cp.flash_attn_type = {"auto": -1, "off": 0}[flash]
        if hasattr(cp, "n_outputs_max_per_seq"):
            cp.n_outputs_max = cp.n_outputs_max_per_seq = 64
        self.ctx = L.llama_init_from_model(self.model, cp)
        if not self.ctx:
            raise RuntimeError("cannot make a context")
        self.memory = L.llama_get_memory(self.ctx)
        self.vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))
        self.batch = L.llama_batch_init(512, 0, 1)
        self.length = 0
        self.random = np.random.default_rng(1)
        self.logits = {}

    def decode(self, tokens, logits):
        """One forward of at most 512 tokens, logits for the last of them."""
        b, n = self.batch, len(tokens)
        b.n_tokens = n
        for i, t in enumerate(tokens):
            b.token[i] = t
            b.pos[i] = self.length + i
            b.n_seq_id[i] = 1
            b.seq_id[i][0] = 0
            b.logits[i] = 1 if i >= n - logits else 0
        start = self.now()
        if L.llama_decode(self.ctx, b) != 0:
            raise RuntimeError(f"llama_decode of {n} tokens at {self.length} failed")
        L.llama_synchronize(self.ctx)
        took = self.now() - start
        self.length += n
        return took * 1e3

    def cut(self, n):
        L.llama_memory_seq_rm(self.memory, 0, n, -1)
        self.length = n

    def some(self, n):
        return [int(t) for t in self.random.integers(0, self.vocab, n)]

    def reach(self, n):
        if self.length > n:
            self.cut(n)
        while self.length < n:
            self.decode(self.some(min(512, n - self.length)), 0)

    def check(self, q):
        self.cut(0)
        self.decode(list(range(3, 35)), 1)
        row = L.llama_get_logits_ith(self.ctx, 31)
        logits = [float(row[i]) for i in range(min(1024, self.vocab))]
        self.cut(0)
        return {"ms": [], "logits": logits}

    def decode_some(self, q):
        self.reach(q["context"])
        self.decode(self.some(1), 1)
        self.cut(q["context"])
        took = [self.decode(self.some(1), 1) for _ in range(q["tokens"])]
        self.cut(q["context"])
        return {"ms": took}

    def forward(self, q):
        self.reach(q["context"])
        took = []
        for _ in range(q["times"] + 1):
            took.append(self.decode(self.some(q["tokens"]), q["tokens"]))
            self.cut(q["context"])
        return {"ms": took[1:]}

    def prompt(self, q):
        self.cut(0)
        tokens, took = self.some(q["tokens"]), 0.0
        for at in range(0, len(tokens), 512):
            took += self.decode(tokens[at : at + 512], 1 if at + 512 >= len(tokens) else 0)
        self.cut(0)
        return {"ms": [took]}

    def sample(self, q):
        path, s = q["file"], q["setting"]
        if path not in self.logits:
            self.logits[path] = np.fromfile(path, dtype=np.float32)
        logits = self.logits[path]
        n = len(logits)
        chain = L.llama_sampler_chain_init(L.llama_sampler_chain_default_params())
        add = lambda x: L.llama_sampler_chain_add(chain, x)
        if s["penalty"]:
            args = [64, s["penalty"], 0.0, 0.0]
            if len(L.llama_sampler_init_penalties.argtypes) == 5:
                args.insert(0, n)
            add(L.llama_sampler_init_penalties(*args))
        if s["top_k"]:
            add(L.llama_sampler_init_top_k(s["top_k"]))
        if s["top_p"]:
            add(L.llama_sampler_init_top_p(s["top_p"], 1))
        if s["min_p"]:
            add(L.llama_sampler_init_min_p(s["min_p"], 1))
        add(L.llama_sampler_init_temp(s["temperature"]))
        add(L.llama_sampler_init_dist(1))
        for t in range(64):
            L.llama_sampler_accept(chain, t * 7)
        rows = np.zeros(n, dtype=[("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        took = []
        for _ in range(q["times"] + 1):
            rows["id"], rows["logit"], rows["p"] = np.arange(n), logits, 0
            a = L.llama_token_data_array(
                data=rows.ctypes.data_as(ctypes.POINTER(L.llama_token_data)), size=n, selected=-1, sorted=False
            )
            start = self.now()
            L.llama_sampler_apply(chain, ctypes.byref(a))
            took.append((self.now() - start) * 1e3)
            L.llama_sampler_accept(chain, int(a.data[a.selected].id))
        L.llama_sampler_free(chain)
        return {"ms": took[1:]}


def main(flash, path, threads, room, clock):
    L.llama_log_set(quiet, None)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints does not come between replies
    say = lambda r: (out.write(json.dumps(r) + "\n"), out.flush())
    L.llama_backend_init()
    base = resident()
    now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
    start = now()
    e = Engine(flash, path, int(threads), int(room), now)
    say({"ms": [(now() - start) * 1e3], "base_kib": base})
    ops = {"check": e.check, "decode": e.decode_some, "forward": e.forward, "prompt": e.prompt, "sample": e.sample}
    for line in sys.stdin:
        q = json.loads(line)
        try:
            say(ops[q["op"]](q))
        except Exception as x:
            say({"ms": [], "error": f"{q['op']}: {x}"})


main(*sys.argv[1:])
