#!/usr/bin/env bash
# Makes the converted DeiT-Tiny models out of the bundled softmax one:
#
#   make_models.sh PICTURES OUTPUT [SEED] [MODEL...]      MODEL: hedgehog hydra_last1 hydra_last2 hydra_last4 mixed; default: all
#
# PICTURES holds three folders to learn from, whose labels are not used (imagenette/train, imagenet_1k_one_each,
# caltech101_unlabelled), and ccby_1k_eval, which is only measured at the end. A run that is stopped goes on when it is started
# again. HYDRASCOPE names the program, default build/release/hydrascope.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -lt 2 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
pictures=$1 output=$2 seed=${3:-0}
shift $(($# < 3 ? $# : 3))
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(hydra_last1 hydra_last2 hydra_last4 hedgehog mixed)
training=(-i "$pictures/imagenette/train" -i "$pictures/imagenet_1k_one_each" -i "$pictures/caltech101_unlabelled")
measured=(--eval "$pictures/ccby_1k_eval" --labels-csv "$pictures/ccby_1k_eval/images.csv")

mkdir -p "$output"
for model in "${models[@]}"; do
  case $model in
    hydra_last1) recipe=(--attn hydra:last1 --epochs 0) ;;
    hydra_last2) recipe=(--attn hydra:last2 --epochs 1 --lr 1e-4 --blocks-weight 4) ;;
    hydra_last4) recipe=(--attn hydra:last4 --epochs 3 --lr 1.5e-4 --blocks-weight 4) ;;
    hedgehog) recipe=(--attn hedgehog --epochs 2 --lr 1e-4 --blocks-weight 4 --batch-size 16 --steps-outputs 0) ;;
    mixed) recipe=(--attn hedgehog,hydra:last2 --epochs 2 --lr 1e-4 --blocks-weight 4 --batch-size 16) ;;
    *)
      echo "make_models.sh: there is no model $model" >&2
      exit 2
      ;;
  esac
  name="$output/deit_tiny_patch16_224.$model.seed$seed"
  "${HYDRASCOPE:-build/release/hydrascope}" convert "${recipe[@]}" "${training[@]}" "${measured[@]}" --seed "$seed" \
    --precision float16 --resume auto --force -o "$name.safetensors" --report "$name.json" --report "$name.html"
done
