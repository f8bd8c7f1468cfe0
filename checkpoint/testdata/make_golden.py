"""Makes golden.json: blocks of every ggml type with the weights they mean, and
rows with the blocks they become, as computed by the gguf package (the reference
of the format's authors); and MLX matrices as packed by mlx.core.quantize.

    pip install gguf 'mlx[cpu]' && python make_golden.py > golden.json
"""

import json
import sys

import gguf
import mlx.core as mx
import numpy as np

rng = np.random.default_rng(1)
T = gguf.GGMLQuantizationType
SCALES = {  # byte offsets of the f16 scales in a block, which must stay finite
    T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}


def words(a):
    return np.ascontiguousarray(a, dtype=np.float32).tobytes().hex()


dequantize = []
for t, offsets in SCALES.items():
    size, nbytes = gguf.GGML_QUANT_SIZES[t]
    blocks = rng.integers(0, 256, (3 if size == 32 else 2, nbytes), dtype=np.uint8)
    for off in offsets:
        scale = (rng.standard_normal(len(blocks)) * 0.1).astype(np.float16)
        blocks[:, off:off + 2] = scale.view(np.uint8).reshape(-1, 2)
    row = blocks.reshape(1, -1)
    dequantize.append({"type": t.name.lower(), "data": row.tobytes().hex(), "want": words(gguf.quants.dequantize(row, t))})

quantize = []
for t in (T.Q8_0, T.Q4_0):
    src = rng.standard_normal((1, 256)).astype(np.float32)
    src[0, 32:64] = 0
    src[0, 64:96] = np.round(src[0, 64:96] * 4) / 2  # many ties
    quantize.append({"type": t.name.lower(), "data": words(src), "want": gguf.quants.quantize(src, t).tobytes().hex()})

mlx = []
for bits, group in ((4, 32), (4, 64), (8, 64)):
    w = mx.array(rng.standard_normal((3, 128)).astype(np.float32)).astype(mx.float16)
    packed, scales, biases = mx.quantize(w, group_size=group, bits=bits)
    # The meaning in float32, of the float16 parameters.
    want = mx.dequantize(packed, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits)
    mlx.append({
        "bits": bits, "group": group, "words": np.array(packed).tobytes().hex(),
        "scales": np.array(scales).tobytes().hex(), "biases": np.array(biases).tobytes().hex(), "want": words(np.array(want)),
    })

json.dump({"dequantize": dequantize, "quantize": quantize, "mlx": mlx}, sys.stdout, indent=0)
