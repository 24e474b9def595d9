"""The results of timm's evaluation transform on synthetic pictures, for transform_test.cpp.

    python scripts/make/make_transform_goldens.py

Writes tests/data/transforms/cases.json and one NAME.ppm per case: timm's output before normalisation, as bytes. The pictures are not
stored: transform_test.cpp has the formula of `picture`, too. Needs Pillow, timm, torchvision, numpy.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import timm
import torchvision
from PIL import Image
from timm.data import create_transform

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "transforms"
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

# name, picture (height, width), img_size (height, width), crop_pct, crop_mode, interpolation
CASES: list[tuple[str, tuple[int, int], tuple[int, int], float, str, str]] = [
    ("landscape_bicubic", (60, 85), (24, 24), 0.875, "center", "bicubic"),
    ("portrait_bilinear", (97, 51), (24, 24), 0.9, "center", "bilinear"),
    ("nearest", (61, 83), (24, 24), 0.875, "center", "nearest"),
    ("enlarged", (9, 7), (24, 24), 0.875, "center", "bicubic"),
    ("one_pixel_high", (1, 5), (8, 8), 1.0, "center", "bicubic"),
    ("wide_target", (50, 37), (20, 36), 0.9, "center", "bicubic"),
    ("tall_target_bilinear", (50, 77), (36, 20), 0.9, "center", "bilinear"),
    ("squash", (70, 41), (24, 28), 1.0, "squash", "bicubic"),
    ("squash_columns_first", (150, 31), (24, 24), 0.9, "squash", "bicubic"),
    ("border_wide", (30, 70), (24, 24), 0.95, "border", "bicubic"),
    ("border_tall_columns_first", (90, 30), (25, 22), 1.0, "border", "bilinear"),
    ("no_multiple_of_16", (45, 64), (27, 30), 0.9, "center", "bicubic"),
    ("thin_wide", (1, 1500), (24, 24), 0.875, "center", "bicubic"),
    ("thin_tall_bilinear", (2000, 3), (24, 20), 0.9, "center", "bilinear"),
    ("thin_nearest", (1, 701), (24, 24), 0.875, "center", "nearest"),
    ("nothing_to_resample", (28, 32), (24, 24), 0.857, "center", "bicubic"),
]


def picture(height: int, width: int) -> Image.Image:
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    values = x * (3 + 2 * c) + y * (7 - c) + (x * y // 8) * (c + 1) + 40 * c
    return Image.fromarray((values % 256).astype(np.uint8))


def transformed(case: tuple[Any, ...]) -> Image.Image:
    _, (height, width), img_size, crop_pct, crop_mode, interpolation = case
    transform = create_transform((3, *img_size), is_training=False, interpolation=interpolation, mean=MEAN, std=STD,
                                 crop_pct=crop_pct, crop_mode=crop_mode, normalize=False)
    return Image.fromarray(transform(picture(height, width)).permute(1, 2, 0).numpy())


def main() -> None:
    keys = ("name", "picture", "img_size", "crop_pct", "crop_mode", "interpolation")
    for case in CASES:
        transformed(case).save(FOLDER / f"{case[0]}.ppm")
    made_with = {"pillow": PIL.__version__, "timm": timm.__version__, "torchvision": torchvision.__version__}
    cases = ",\n  ".join(json.dumps(dict(zip(keys, case, strict=True))) for case in CASES)
    text = (
        f'{{\n "made_with": {json.dumps(made_with)},\n "mean": {json.dumps(MEAN)},\n'
        f' "std": {json.dumps(STD)},\n "cases": [\n  {cases}\n ]\n}}\n'
    )
    (FOLDER / "cases.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
