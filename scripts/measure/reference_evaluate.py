"""Top-1/top-5 of a checkpoint by Pillow and timm: a second opinion on `hydrascope evaluate`.

    python scripts/measure/reference_evaluate.py FOLDER [--arch NAME] [--weights FILE]

Shares no code with hydrascope: Pillow decodes and resizes, timm transforms and runs the model in float32. FOLDER either holds
`images.csv` (columns `file` and `class_index`) or one folder per class, named by the synset ids of the label file. EXIF orientation
is ignored, as timm does. Rows follow the CSV, or the sorted folders and files. Needs torch, timm, Pillow and safetensors.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from safetensors import safe_open
from timm.data import create_transform

ASSETS = Path(__file__).resolve().parents[2] / "assets"
# DeiT's own evaluation, for weights whose metadata does not name a transform.
TRANSFORM = {"input_size": [3, 224, 224], "interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center",
             "mean": timm.data.IMAGENET_DEFAULT_MEAN, "std": timm.data.IMAGENET_DEFAULT_STD}


def labelled_files(folder: Path) -> list[tuple[Path, int]]:
    """Every picture and its 0-based class."""
    table = folder / "images.csv"
    if table.exists():
        with table.open(newline="", encoding="utf-8") as file:
            return [(folder / row["file"], int(row["class_index"])) for row in csv.DictReader(file)]
    lines = (ASSETS / "labels" / "imagenet1k.txt").read_text(encoding="utf-8").splitlines()
    index_of = {line.split(" ", 1)[0]: index for index, line in enumerate(lines)}
    files = (file for file in sorted(folder.glob("*/*")) if file.suffix.lower() in {".jpg", ".jpeg", ".png", ".bmp", ".webp"})
    return [(file, index_of[file.parent.name]) for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="FOLDER")
    parser.add_argument("--arch", default="deit_tiny_patch16_224", help="timm's name of the model")
    parser.add_argument("--weights", type=Path, default=ASSETS / "models" / "deit_tiny_patch16_224.softmax.safetensors")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    items = labelled_files(arguments.data)
    if not items:
        parser.error(f"no labelled pictures in {arguments.data}")
    with safe_open(arguments.weights, "pt") as file:
        metadata = file.metadata() or {}
        weights = {name: file.get_tensor(name).float() for name in file.keys()}
    model = timm.create_model(arguments.arch).eval()
    model.load_state_dict(weights, strict=True)
    transform = create_transform(**(json.loads(metadata["transform"]) if "transform" in metadata else TRANSFORM))
    batches = []
    with torch.inference_mode():
        for begin in range(0, len(items), 32):
            batches.append(model(torch.stack([transform(Image.open(file).convert("RGB")) for file, _ in items[begin : begin + 32]])))
    logits = torch.cat(batches).numpy()
    targets = np.array([target for _, target in items])
    # The rank of the target: how many classes score higher.
    ranks = (logits > np.take_along_axis(logits, targets[:, None], axis=1)).sum(axis=1)
    print(f"top1 {100 * (ranks < 1).mean():.2f} %  top5 {100 * (ranks < 5).mean():.2f} %  of {len(items)} images")


if __name__ == "__main__":
    main()
