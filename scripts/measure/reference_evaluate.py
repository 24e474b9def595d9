"""Top-1/top-5 of a checkpoint by Pillow and timm: a second opinion on `hydrascope evaluate`.

    python scripts/measure/reference_evaluate.py --data FOLDER [--weights FILE] [-o FILE.json]

Shares no code with hydrascope: Pillow decodes and resizes, timm transforms and runs the model in
float32. FOLDER either holds `images.csv` (columns `file` and `class_index`) or one folder per class,
named by the synset ids of the label file. EXIF orientation is ignored, as timm does. Rows follow
the CSV, or the sorted folders and files. Needs torch, timm, Pillow and safetensors.
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import timm
import torch
from PIL import Image
from safetensors import safe_open
from timm.data import create_transform

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
PICTURE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}

# DeiT's own evaluation, for weights whose metadata does not name a transform.
DEFAULT_TRANSFORM: dict[str, Any] = {
    "input_size": [3, 224, 224],
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
    "mean": timm.data.IMAGENET_DEFAULT_MEAN,
    "std": timm.data.IMAGENET_DEFAULT_STD,
}


def labelled_files(folder: Path, labels: Path) -> list[tuple[Path, int]]:
    """Every picture and its 0-based class."""
    table = folder / "images.csv"
    if table.exists():
        with table.open(newline="", encoding="utf-8") as file:
            return [(folder / row["file"], int(row["class_index"])) for row in csv.DictReader(file)]
    synsets = [line.split(" ", 1)[0] for line in labels.read_text(encoding="utf-8").splitlines()]
    index_of = {synset: index for index, synset in enumerate(synsets)}
    return [
        (file, index_of[subfolder.name])
        for subfolder in sorted(path for path in folder.iterdir() if path.is_dir())
        for file in sorted(subfolder.iterdir())
        if file.suffix.lower() in PICTURE_SUFFIXES
    ]


def load_model(arch: str, weights: Path) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model in float32, whatever the file's dtype, and its evaluation transform."""
    with safe_open(weights, "pt") as file:
        metadata = file.metadata() or {}
        state_dict = {name: file.get_tensor(name).float() for name in file.keys()}
    model = timm.create_model(arch)
    model.load_state_dict(state_dict, strict=True)
    transform = DEFAULT_TRANSFORM
    if "transform" in metadata:
        transform = json.loads(metadata["transform"])
    return model.eval(), transform


def compute_logits(
    model: torch.nn.Module, options: dict[str, Any], files: list[Path], batch_size: int
) -> np.ndarray:
    """float32 (files, classes)."""
    transform = create_transform(**options)
    batches: list[torch.Tensor] = []
    with torch.inference_mode():
        for begin in range(0, len(files), batch_size):
            batch = [
                transform(Image.open(file).convert("RGB"))
                for file in files[begin : begin + batch_size]
            ]
            batches.append(model(torch.stack(batch)))
    return torch.cat(batches).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--arch", default="deit_tiny_patch16_224", help="timm's name of the model")
    parser.add_argument(
        "--weights",
        type=Path,
        default=ASSETS / "models" / "deit_tiny_patch16_224.softmax.safetensors",
    )
    parser.add_argument("--labels", type=Path, default=ASSETS / "labels" / "imagenet1k.txt")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="JSON; default: stdout")
    parser.add_argument(
        "--save-logits", type=Path, metavar="FILE.npy", help="float32 (images, classes)"
    )
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    items = labelled_files(arguments.data, arguments.labels)
    if not items:
        parser.error(f"no labelled pictures in {arguments.data}")
    files = [file for file, _ in items]
    targets = np.array([target for _, target in items])
    model, transform = load_model(arguments.arch, arguments.weights)

    begin = time.perf_counter()
    logits = compute_logits(model, transform, files, arguments.batch_size)
    seconds = time.perf_counter() - begin

    # The rank of the target: how many classes score higher.
    ranks = (logits > np.take_along_axis(logits, targets[:, None], axis=1)).sum(axis=1)
    result = {
        "schema": 1,
        "top1": round(float((ranks < 1).mean() * 100), 4),
        "top5": round(float((ranks < 5).mean() * 100), 4),
        "images": len(files),
        "model": arguments.weights.name,
        "transform": transform,
        "timm": timm.__version__,
        "torch": torch.__version__,
        "pillow": PIL.__version__,
        "images_per_second": round(len(files) / seconds, 2),
        "files": [file.relative_to(arguments.data).as_posix() for file in files],
        "predictions": logits.argmax(axis=1).tolist(),
    }
    if arguments.save_logits:
        np.save(arguments.save_logits, logits)
    text = json.dumps(result, indent=1) + "\n"
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
        print(f"top1 {result['top1']:.2f} %  top5 {result['top5']:.2f} %  of {len(files)} images")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
