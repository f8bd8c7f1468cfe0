#!/usr/bin/env bash
# Makes demo/ from nothing: data, target, samples, drafters, export, evaluation. Run it again to continue where it stopped.
# WORK holds data and checkpoints (about 400 MB), PYTHON is an interpreter with requirements.txt installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/surmise/training}
PYTHON=${PYTHON:-python3}
mkdir -p "$WORK/data" "$WORK/work"

# Large blocks from the heap instead of fresh pages from the kernel: a sixth faster on a CPU.
export MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=8000000000 MALLOC_TOP_PAD_=100000000
# Threads that wait must not spin where other work shares the cores.
export OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0

run() { "$PYTHON" -u "$here/$1" "${@:2}"; }
run data.py "$WORK/data"
run train_target.py --data "$WORK/data" --work "$WORK/work"
run sample.py --target "$WORK/work/target.pt" --data "$WORK/data" --out "$WORK/data/samples.npy"
for drafter in draft mtp dflash; do
  run "train_$drafter.py" --target "$WORK/work/target.pt" --data "$WORK/data" --samples "$WORK/data/samples.npy" --work "$WORK/work"
done
run export.py --data "$WORK/data" --work "$WORK/work" --out "$here/../demo"
run eval.py --family "$here/../demo" --data "$WORK/data"
