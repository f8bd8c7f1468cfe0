"""The shapes of the demo family. Together they take less than 16 MB in f16."""

import dataclasses

from model import Config, DFlash, MTPHead

TARGET = dict(
    hidden_size=256, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=64, intermediate_size=640
)
DRAFT = dict(
    hidden_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=64, intermediate_size=224
)
MTP_FFN = 256
MTP_DEPTH = 4
TAPS = (1, 3, 5)
BLOCK = 8
DFLASH_FFN = 272
DFLASH_LAYERS = 3


def make_mtp(target, ffn=MTP_FFN):
    """An MTP head whose layer has the target's attention shape; ffn None takes the target's MLP width too."""
    return MTPHead(dataclasses.replace(target, num_hidden_layers=1, intermediate_size=ffn or target.intermediate_size))


def make_dflash(target, mask_token, taps=TAPS, block=BLOCK, layers=DFLASH_LAYERS, ffn=DFLASH_FFN):
    """A DFlash drafter with the target's hidden and attention shape."""
    c = dataclasses.replace(target, num_hidden_layers=layers, intermediate_size=ffn or target.intermediate_size)
    return DFlash(c, target.hidden_size, taps, block, mask_token)
