#!/usr/bin/env bash
# Makes the converted DeiT-Tiny models out of the bundled softmax one, and those that start from random weights:
#
#   make_models.sh PICTURES OUTPUT [SEED] [MODEL...]      MODEL: hydra_last2 hedgehog window, which are bundled and the default, or
#                                                         hydra_last1 hydra_last4 mixed hydra hydra_window hydra_window_sizes
#                                                         softmax_sizes exits scratch_softmax scratch_hydra
#
# PICTURES holds three folders to learn from, whose labels are not used (imagenette/train, imagenet_1k_one_each, caltech101_unlabelled), and
# ccby_1k_eval, which is only measured at the end. `mixed` puts the hedgehog and hydra_last2 models of the same seed together. `window` learns
# sizes up to 1088x1920, and to find small things there, on the training half of PICTURES/backgrounds (backgrounds_of in make_scenes.py)
# and on some of Caltech's pictures without an object. `hydra` has it in all layers, `hydra_window` with softmax
# windows beside it; `hydra_window_sizes` takes the last one and learns sizes, `softmax_sizes` learns them with softmax. `exits` is softmax
# with exits, learned on twelve of sixteen pictures and calibrated on three: at most 1 % of pictures differ. OUTPUT/exits_check.txt lists the
# others, which judge. `scratch_*` are the models of docs/notes/from_scratch.md, trained on imagenette's train and val: lines of
# OUTPUT/MODEL/metrics.jsonl with a train_loss, one per epoch, are docs/measurements/from_scratch.csv. The bundled models are copied to
# assets/models without the seed in their names (`exits` by scripts/make/share_weights.py); which seed it was is in their cards. A run that is
# stopped goes on when it is started again. HYDRASCOPE names the program, default build/release/hydrascope; PROCESSES how many work on a
# model together, if not as many as `convert` chooses.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
pictures=$(realpath -m "$1") output=$(realpath -m "$2") seed=${3:-0}
program=${HYDRASCOPE:-}
[[ $program != */* ]] || program=$(realpath "$program")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${program:-build/release/hydrascope}
shift $(($# < 3 ? $# : 3))
if [[ $seed != +([0-9]) ]]; then
  echo "make_models.sh: expected a number as SEED, found $seed" >&2
  exit 2
fi
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(hydra_last2 hedgehog window)
training=(-i "$pictures/imagenette/train" -i "$pictures/imagenet_1k_one_each" -i "$pictures/caltech101_unlabelled")
measured=(--eval "$pictures/ccby_1k_eval" --labels-csv "$pictures/ccby_1k_eval/images.csv")
# Otherwise as many processes as `convert` chooses, one a core on a small machine.
processes=()
[ -z "${PROCESSES:-}" ] || processes=(--processes "$PROCESSES")

# convert SEED FILE ARGUMENT...
convert() {
  "$program" convert "${@:3}" "${training[@]}" "${measured[@]}" "${processes[@]}" --set seed="$1" --dtype float16 \
    --resume auto --force -o "$2" --format json >"${2%.safetensors}.json"
}

# Lists the pictures that exits learn from, those that they are calibrated on, and those that check the threshold.
list_exit_pictures() {
  find "$pictures/imagenette/train" "$pictures/imagenet_1k_one_each" "$pictures/caltech101_unlabelled" -type f |
    LC_ALL=C sort >"$output/exits_all.txt"
  awk 'NR % 4 == 0 && NR % 16 != 0' "$output/exits_all.txt" >"$output/exits_calibrate.txt"
  awk 'NR % 16 == 0' "$output/exits_all.txt" >"$output/exits_check.txt"
  awk 'NR % 4 != 0' "$output/exits_all.txt" >"$output/exits_learn.txt"
}

# calibrate FILE DELTA: keeps the threshold in the file.
calibrate() {
  "$program" evaluate "@$output/exits_calibrate.txt" -m "$1" --set no-labels=on --calibrate-exit "$2" --format json >"$1.calibration.json"
  "$program" convert "$1" "$1.calibrated.safetensors" --force --set \
    exit-threshold="$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["exit_threshold"])' "$1.calibration.json")"
  mv "$1.calibrated.safetensors" "$1"
}

# Sets `backgrounds`: those that are not kept for evaluation.
list_backgrounds() {
  backgrounds=$output/backgrounds.txt
  if [ -z "$(ls "$pictures/backgrounds" 2>/dev/null)" ]; then
    echo "make_models.sh: no pictures in $pictures/backgrounds" >&2
    exit 2
  fi
  PYTHONPATH=scripts/make python3 -c 'import sys, pathlib, make_scenes
print(*make_scenes.backgrounds_of(pathlib.Path(sys.argv[1]), "train"), sep="\n")' "$pictures/backgrounds" >"$backgrounds"
  find "$pictures/caltech101_unlabelled" -name 'BACKGROUND_*' | LC_ALL=C sort | awk 'NR % 9 == 1' >>"$backgrounds"
}

# The settings of models that learn sizes alone.
sizes=(--epochs 0 --set steps-outputs=0 --set sizes.lr=5e-5 --set last.evaluations=4 --set balance-sources=on --held-out 300 --batch-size 32 --set run.recovery-interval=50)
[ -n "${PROCESSES:-}" ] || sizes+=(--processes 2)

file_of() { echo "$output/deit_tiny_patch16_224.$1.seed$seed.safetensors"; }

mkdir -p "$output"
for model in "${models[@]}"; do
  file=$(file_of "$model")
  case $model in
    hydra_last[124]) recipe=(--attn "hydra:${model#hydra_}") ;;
    hydra | hedgehog) recipe=(--attn "$model") ;;
    hydra_window | hydra_window_sizes)
      recipe=(--attn hydra --set attn-opt=hydra.feature_scale=on --set attn-opt=hydra.local=window7)
      if [ "$model" = hydra_window ]; then
        recipe+=(--epochs 4 --lr 1e-4 --set balance-sources=on)
      else
        list_backgrounds
        recipe+=(--set pos-interp=tile --set overview=on "${sizes[@]}" --sizes 224,384,512,768,1088,1088x1920 --scenes "@$backgrounds"
          --set steps-sizes=800 --start "$(file_of hydra_window)")
      fi
      ;;
    softmax_sizes)
      recipe=(--attn softmax --set attn-opt=softmax.logit_scale=log "${sizes[@]}" --sizes 224,384,512,768 --set steps-sizes=600)
      ;;
    mixed) recipe=(--attn hedgehog,hydra:last2 --start "$(file_of hedgehog)" --start "$(file_of hydra_last2)" --epochs 1) ;;
    window)
      list_backgrounds
      recipe=(--attn window --set attn-opt=window.prefix_rows=learned --set pos-interp=tile --set overview=on "${sizes[@]}"
        --sizes 224,384,512,768,1088,1088x1920 --scenes "@$backgrounds" --set steps-sizes=800 --set mechanism-lr-scale=20)
      ;;
    exits)
      list_exit_pictures
      (
        training=(-i "@$output/exits_learn.txt")
        convert "$seed" "$file" --exits auto --set steps-exits=4000
      )
      calibrate "$file" 0.01
      continue
      ;;
    scratch_*)
      "$program" train "$pictures/imagenette" -m deit_tiny_patch8_64 --attn "${model#scratch_}" --epochs 15 --set warmup-epochs=2 --lr 5e-4 \
        --set scale=0.35,1 --processes 2 -b 16 --set cache-mb=600 --set seed="$seed" --resume auto -o "$output/$model"
      continue
      ;;
    *)
      echo "make_models.sh: there is no model $model" >&2
      exit 2
      ;;
  esac
  convert "$seed" "$file" "${recipe[@]}"
done
