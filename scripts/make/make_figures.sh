#!/usr/bin/env bash
# Makes assets/figures: the README's strip (a photograph, what speaks for otter at 224x224, and at 1080x1920
# without a resize) and a contact sheet of methods at 224x224. The program must be built, python3 needs Pillow, and
# the times under the strip are true where the machine does nothing else.
#   make_figures.sh [PROGRAM] [FOLDER]      (default: build/release/hydrascope, assets/figures)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${1:-build/release/hydrascope}
figures=${2:-assets/figures}
photo=assets/images/oakland-zoo-otters.jpg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heatmap() {  # NAME OPTION...: draws it five times, a record each
  local name=$1
  shift
  "$program" visualize -q --no-progress -m deit_tiny_patch16_224.window --precision bfloat16 -b 1 --class otter --format jsonl \
    -o "$work/$name" "$@" "$photo" "$photo" "$photo" "$photo" "$photo" >"$work/$name.jsonl"
}
heatmap small
heatmap native --native

python3 - "$photo" "$work" "$figures/strip.jpg" <<'PYTHON'
import json
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, GAP, TEXT = 640, 10, 25  # pixels: of a panel, between panels, of letters
photo, work, strip = map(Path, sys.argv[1:])

panels = [(photo, "the photograph, 1080x1920")]
for name in ("small", "native"):
    records = [json.loads(line) for line in (work / f"{name}.jsonl").read_text().splitlines()]
    seconds = min(record["seconds"] for record in records)  # of the model and the map
    time = f"{seconds * 1000:.0f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
    size = "x".join(map(str, (records[0]["height"], records[0]["width"]) if name == "native" else records[0]["model_size"]))
    panels.append((records[0]["files"]["heatmap"], f"evidence for {records[0]['class']['label']}, {size}, {time}"))

pictures = [Image.open(file).convert("RGB") for file, _ in panels]
height = round(WIDTH * pictures[0].height / pictures[0].width)
sheet = Image.new("RGB", (3 * WIDTH + 2 * GAP, height + 2 * TEXT), "white")
draw = ImageDraw.Draw(sheet)
font = ImageFont.truetype("assets/fonts/DejaVuSans-subset.ttf", TEXT)
for i, (picture, (_, caption)) in enumerate(zip(pictures, panels)):
    left = i * (WIDTH + GAP)
    sheet.paste(picture.resize((WIDTH, height), Image.Resampling.LANCZOS), (left, 0))
    draw.text((left + WIDTH / 2, height + TEXT), caption, "#202020", font, anchor="mm")
sheet.save(strip, quality=88, optimize=True)
PYTHON

"$program" visualize -q --no-progress --class otter --method hydra,attention,rollout,grad-rollout,gradcam,attn-gradcam \
  --image-format jpeg --quality 85 -o "$work" "$photo" >"$work/methods.txt"
mv "$work/oakland-zoo-otters.heatmap.jpg" "$figures/otters_methods.jpg"
