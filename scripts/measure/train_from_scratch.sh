#!/usr/bin/env bash
# Trains the models of docs/notes/from_scratch.md that start from random weights: DeiT-Tiny with patches of 8 on pictures of 64 pixels.
#
#   train_from_scratch.sh PICTURES OUTPUT [ATTENTION...]      default: softmax hydra
#
# PICTURES holds train and val with one folder per class (imagenette). The lines of OUTPUT/ATTENTION/metrics.jsonl with a train_loss, one per
# epoch, are docs/measurements/from_scratch/ATTENTION.jsonl. A run that is stopped goes on when it is started again. HYDRASCOPE names
# the program, default build/release/hydrascope.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
pictures=$(realpath -m "$1") output=$(realpath -m "$2")
program=${HYDRASCOPE:-}
[[ $program != */* ]] || program=$(realpath "$program")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${program:-build/release/hydrascope}
shift 2
attentions=("$@")
[ ${#attentions[@]} -gt 0 ] || attentions=(softmax hydra)
for attention in "${attentions[@]}"; do
  "$program" train "$pictures" -m deit_tiny_patch8_64 --attn "$attention" --epochs 15 --set warmup-epochs=2 --lr 5e-4 --set scale=0.35,1 \
    --processes 2 -b 16 --set cache-mb=600 --set seed=0 --resume auto -o "$output/$attention"
done
