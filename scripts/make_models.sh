#!/usr/bin/env bash
# Makes the converted DeiT-Tiny models out of the bundled softmax one:
#
#   make_models.sh PICTURES OUTPUT [SEED] [MODEL...]      MODEL: hydra_last1 hydra_last2 hydra_last4 hydra hedgehog mixed
#                                                         default: all but hydra, which has it in all layers
#
# PICTURES holds three folders to learn from, whose labels are not used (imagenette/train, imagenet_1k_one_each,
# caltech101_unlabelled), and ccby_1k_eval, which is only measured at the end. `mixed` puts the hedgehog and hydra_last2 models of
# the same seed together. A run that is stopped goes on when it is started again. HYDRASCOPE names the program, default
# build/release/hydrascope; PROCESSES is how many work on a model together (1): one a core is faster than one with all cores.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
pictures=$(realpath -m "$1") output=$(realpath -m "$2") seed=${3:-0}
program=${HYDRASCOPE:-}
[[ $program != */* ]] || program=$(realpath "$program")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${program:-build/release/hydrascope}
shift $(($# < 3 ? $# : 3))
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(hydra_last1 hydra_last2 hydra_last4 hedgehog mixed)
training=(-i "$pictures/imagenette/train" -i "$pictures/imagenet_1k_one_each" -i "$pictures/caltech101_unlabelled")
measured=(--eval "$pictures/ccby_1k_eval" --labels-csv "$pictures/ccby_1k_eval/images.csv")
processes=${PROCESSES:-1}

# convert BATCH ARGUMENTS...: on $processes processes, which share the batch.
convert() {
  local batch=$1 arguments=(convert "${@:2}")
  if [ "$processes" -eq 1 ]; then
    "$program" "${arguments[@]}"
    return
  fi
  arguments+=(--batch-size $((batch / processes)) --batch-size-maps $((processes < 8 ? 8 / processes : 1)))
  local rank started=() failed=0
  export WORLD_SIZE=$processes LOCAL_WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29500}
  for ((rank = 0; rank < processes; rank++)); do
    RANK=$rank LOCAL_RANK=$rank "$program" "${arguments[@]}" &
    started+=($!)
  done
  # Ranks that nobody waits for would go on, and share their files with the next run's.
  trap 'kill "${started[@]}" 2>/dev/null; wait' EXIT
  trap 'exit 143' TERM
  trap 'exit 130' INT
  for rank in "${started[@]}"; do wait "$rank" || failed=$?; done
  trap - EXIT TERM INT
  return "$failed"
}

file_of() { echo "$output/deit_tiny_patch16_224.$1.seed$seed.safetensors"; }

mkdir -p "$output"
for model in "${models[@]}"; do
  file=$(file_of "$model")
  batch=32
  case $model in
    hydra_last1) recipe=(--attn hydra:last1) ;;
    hydra_last2) recipe=(--attn hydra:last2) ;;
    hydra_last4) recipe=(--attn hydra:last4) ;;
    hydra) recipe=(--attn hydra) ;;
    hedgehog) batch=16 recipe=(--attn hedgehog) ;;
    mixed) batch=16 recipe=(--attn hedgehog,hydra:last2 --start "$(file_of hedgehog)" --start "$(file_of hydra_last2)" --epochs 1) ;;
    *)
      echo "make_models.sh: there is no model $model" >&2
      exit 2
      ;;
  esac
  convert "$batch" "${recipe[@]}" "${training[@]}" "${measured[@]}" --seed "$seed" --precision float16 --resume auto --force \
    -o "$file" --report "${file%.safetensors}.json" --report "${file%.safetensors}.html"
done
