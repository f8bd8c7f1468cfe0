"""Writes the demo family from its training checkpoints.

    python export.py --data DIR --work DIR --out DIR

makes target/, draft/, mtp/ and dflash/ under --out, in f16, at most 16 MB together. Drafters that are not trained yet
are left out.
"""

import os

import common
import family
import layouts
from model import CausalLM, Config

LIMIT = 16_000_000


def load(module, path):
    """A module with the weights of a training checkpoint."""
    common.fill(module, path)
    return module


def main():
    """Entry point."""
    p = common.parser(__doc__)
    p.add_argument("--data", required=True, help="directory that data.py made")
    p.add_argument("--work", required=True, help="directory of the checkpoints")
    p.add_argument("--out", required=True, help="directory to write the family into")
    args = p.parse_args()
    meta = common.load_meta(args.data)
    at = lambda name: os.path.join(args.work, name + ".pt")
    target = load(CausalLM(Config(**family.TARGET)), at("target"))
    layouts.export_lm(os.path.join(args.out, "target"), target, args.data)
    if os.path.exists(at("draft")):
        layouts.export_lm(os.path.join(args.out, "draft"), load(CausalLM(Config(**family.DRAFT)), at("draft")), args.data)
    if os.path.exists(at("mtp")):
        layouts.export_mtp(os.path.join(args.out, "mtp"), load(family.make_mtp(target.config), at("mtp")), meta)
    if os.path.exists(at("dflash")):
        d = load(family.make_dflash(target.config, meta["mask"]), at("dflash"))
        layouts.export_dflash(os.path.join(args.out, "dflash"), d, target.config.num_hidden_layers, meta)
    size = sum(os.path.getsize(os.path.join(f, n)) for f, _, ns in os.walk(args.out) for n in ns if not n.endswith(".go"))
    print(f"export: {size / 1e6:.2f} MB under {args.out}")
    if size > LIMIT:
        raise SystemExit(f"the family takes {size} bytes, over the limit of {LIMIT}")


if __name__ == "__main__":
    common.run(main)
