#!/usr/bin/env bash
# Makes demo/ from nothing: data, target, target with DFlash drafter, samples, features, drafters, export, evaluation. Run it
# again to continue where it stopped.
# WORK holds data, features and checkpoints (about 3.5 GB), PYTHON is an interpreter with requirements.txt installed, OUT is
# where the family goes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/surmise/training}
PYTHON=${PYTHON:-python3}
OUT=${OUT:-$here/../demo}
mkdir -p "$WORK/data" "$WORK/work"

# Large blocks from the heap instead of fresh pages from the kernel: a sixth faster on a CPU.
export MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=8000000000 MALLOC_TOP_PAD_=100000000
# Threads that wait must not spin where other work shares the cores.
export OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0

# STEPS=20 tries every stage with that many steps and little data: give it a WORK of its own.
steps=${STEPS:+--steps $STEPS} tokens=${STEPS:+--tokens 40000}

run() { "$PYTHON" -u "$here/$1" "${@:2}"; }
target=(--target "$WORK/work/target.pt" --data "$WORK/data")
samples=$WORK/data/samples.npy features=$WORK/features
run data.py "$WORK/data"
run train_target.py --data "$WORK/data" --work "$WORK/work" $steps
run train_joint.py --target "$WORK/work/base.pt" --data "$WORK/data" --work "$WORK/work" $steps
run sample.py "${target[@]}" --out "$samples" $tokens
run features.py "${target[@]}" --samples "$samples" --out "$features" $tokens
drafters=("${target[@]}" --features "$features" --work "$WORK/work" $steps)
run train_draft.py "${drafters[@]}"
run train_mtp.py "${drafters[@]}"
run train_dflash.py "${drafters[@]}" --init "$WORK/work/joint-dflash" --lr 1.5e-3 --matrix-lr 2.8e-3 --kl 0.25
run export.py --data "$WORK/data" --work "$WORK/work" --out "$OUT"
run eval.py --family "$OUT" --data "$WORK/data"
