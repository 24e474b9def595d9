#!/usr/bin/env bash
# Makes the heatmaps of the README: the otters at 1080p, whole and unscaled, by the bundled models with softmax, Hedgehog and
# Hydra attention, and a contact sheet of methods at 224x224. The program must be built.
#   make_figures.sh [PROGRAM] [FOLDER]      (default: build/release/hydrascope, assets/figures)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${1:-build/release/hydrascope}
figures=${2:-assets/figures}
photo=assets/images/oakland-zoo-otters.jpg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heatmap() {  # NAME MODEL METHOD
  "$program" visualize -q --no-progress --native -m "deit_tiny_patch16_224.$2" --method "$3" --class otter --sign positive --fade --alpha 0.8 \
    --caption --colorbar --image-format jpeg --quality 82 -o "$work" "$photo"
  mv "$work/oakland-zoo-otters.heatmap.jpg" "$figures/otters_1080p_$1.jpg"
}
heatmap softmax softmax attention
heatmap hedgehog hedgehog attention
heatmap hydra hydra_last2 hydra

"$program" visualize -q --no-progress --method hydra,attention,rollout,grad-rollout,gradcam,attn-gradcam --class otter \
  --sign positive --fade --alpha 0.8 --image-format jpeg --quality 85 -o "$work" "$photo"
mv "$work/oakland-zoo-otters.heatmap.jpg" "$figures/otters_methods.jpg"
