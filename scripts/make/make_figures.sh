#!/usr/bin/env bash
# Makes assets/figures: the README's strip (a photograph of a desert, its evidence at 224x224, and at 1080x1920 without a
# resize, each for the model's answer there) and a contact sheet of methods at 224x224. The program must be built, python3
# needs Pillow. The photograph is extreme-desert-hike.jpg, 1920x1080, of BuddiesOfBudgie/budgie-backgrounds (CC0 1.0).
#   make_figures.sh PHOTOGRAPH [PROGRAM] [FOLDER]      (default: build/release/hydrascope, assets/figures)
set -euo pipefail
photo=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${2:-build/release/hydrascope}
figures=${3:-assets/figures}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heatmap() {  # NAME OPTION...
  local name=$1
  shift
  "$program" visualize -q --set progress=off -m deit_tiny_patch16_224.window --precision float32 --format jsonl --no-caption \
    -o "$work/$name.png" "$@" "$photo" >"$work/$name.jsonl"
}
heatmap small --set crop-pct=1 --set crop-mode=squash
heatmap native --native

python3 - "$photo" "$work" "$figures/strip.jpg" <<'PYTHON'
import json
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, GAP, TEXT = 640, 10, 25  # pixels: of a panel, between panels, of letters
HIKERS = (540, 896, 796, 1040)  # left, top, right, bottom in the photograph
photo, work, strip = map(Path, sys.argv[1:])

panels = [(photo, "1080x1920 pixels")]
for name in ("small", "native"):
    (line,) = (work / f"{name}.jsonl").read_text().splitlines()
    record = json.loads(line)
    rows, columns = record["model_size"] if name == "small" else (record["height"], record["width"])
    found = f"{record['class']['label']} {100 * record['class']['prob']:.0f} %"
    panels.append((record["files"]["heatmap"], f"sees {rows}x{columns}: {found}"))

height = round(WIDTH * 1080 / 1920)
sheet = Image.new("RGB", (3 * WIDTH + 2 * GAP, height + 2 * TEXT), "white")
draw = ImageDraw.Draw(sheet)
font = ImageFont.truetype("assets/fonts/DejaVuSans-subset.ttf", TEXT)
for i, (file, caption) in enumerate(panels):
    picture = Image.open(file).convert("RGB")
    left = i * (WIDTH + GAP)
    sheet.paste(picture.resize((WIDTH, height), Image.Resampling.LANCZOS), (left, 0))
    # The hikers as the photograph has them, pixel by pixel, in a corner.
    cut = picture.crop(HIKERS)
    sheet.paste(cut, (left + WIDTH - cut.width, 0))
    scale = WIDTH / 1920
    for frame in ([left + edge * scale if j % 2 == 0 else edge * scale for j, edge in enumerate(HIKERS)],
                  [left + WIDTH - cut.width, 0, left + WIDTH - 1, cut.height - 1]):
        draw.rectangle(frame, outline="white", width=2)
    draw.text((left + WIDTH / 2, height + TEXT), caption, "#202020", font, anchor="mm")
sheet.save(strip, quality=88, optimize=True)
PYTHON

photo=assets/images/oakland-zoo-otters.jpg
"$program" visualize -q --set progress=off --class otter --method hydra,attention,rollout,grad-rollout,gradcam,attn-gradcam \
  -o "$work" "$photo" >"$work/methods.txt"
python3 -c 'import sys; from PIL import Image; Image.open(sys.argv[1]).convert("RGB").save(sys.argv[2], quality=85)' \
  "$work"/oakland-zoo-otters.heatmap.* "$figures/otters_methods.jpg"
