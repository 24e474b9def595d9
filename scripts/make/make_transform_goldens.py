"""The results of timm's evaluation transform and of its RandAugment operations on synthetic pictures.

    python scripts/make/make_transform_goldens.py        # needs Pillow, timm, torchvision, numpy

Writes tests/data/transforms/cases.json and one NAME.ppm per case, timm's output before normalisation, as bytes, for transform_test.cpp; and
tests/data/augmentations/cases.json for rand_augment_test.cpp: an operation, its argument, and the bytes that timm with Pillow gives, in
hexadecimal. The pictures are not stored: the tests have the formulas of `picture` and `augmented_picture`, too.
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
from timm.data.auto_augment import NAME_TO_OP

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
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


# Enough pixels for equalize to do something; then a pixel, lines, and what filters cannot reach into.
AUGMENTED_SIZES = [(21, 16), (1, 1), (1, 9), (9, 1), (2, 2)]
FILL = (124, 116, 104)

# Operation here, operation of timm, arguments.
AUGMENTATIONS = [
    ("auto_contrast", "AutoContrast", [None]), ("equalize", "Equalize", [None]), ("invert", "Invert", [None]),
    ("rotate", "Rotate", [27.0, -11.5]), ("posterize", "Posterize", [1, 3]), ("solarize", "Solarize", [26, 256]),
    ("solarize_add", "SolarizeAdd", [99]), ("color", "Color", [0.1, 1.81]), ("contrast", "Contrast", [0.19, 1.9]),
    ("brightness", "Brightness", [0.55, 1.73]), ("sharpness", "Sharpness", [0.1, 1.9]),
    ("shear_x", "ShearX", [0.27, -0.13]), ("shear_y", "ShearY", [0.3, -0.2]),
    ("translate_x", "TranslateXRel", [0.405, -0.1]), ("translate_y", "TranslateYRel", [-0.405, 0.2]),
]
MOVING = {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"}


def picture(height: int, width: int) -> Image.Image:
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    values = x * (3 + 2 * c) + y * (7 - c) + (x * y // 8) * (c + 1) + 40 * c
    return Image.fromarray((values % 256).astype(np.uint8))


def transformed(case: tuple[Any, ...]) -> Image.Image:
    _, (height, width), img_size, crop_pct, crop_mode, interpolation = case
    transform = create_transform((3, *img_size), is_training=False, interpolation=interpolation, mean=MEAN, std=STD,
                                 crop_pct=crop_pct, crop_mode=crop_mode, normalize=False)
    return Image.fromarray(transform(picture(height, width)).permute(1, 2, 0).numpy())


def augmented_picture(height: int, width: int) -> Image.Image:
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    values = 20 + (x * (11 + 2 * c) + y * (7 - c) * 2 + (x * y // 3) * (c + 1) + 40 * c) % 200
    return Image.fromarray(values.astype(np.uint8))


def augmented(height: int, width: int) -> list[dict[str, object]]:
    made = []
    for name, timm_name, arguments in AUGMENTATIONS:
        for argument in arguments:
            for interpolation in ("bilinear", "bicubic") if name in MOVING else ("bilinear",):
                image = NAME_TO_OP[timm_name](augmented_picture(height, width), *(() if argument is None else (argument,)), fillcolor=FILL,
                                              resample=getattr(Image.Resampling, interpolation.upper()))
                made.append({"operation": name, "argument": argument or 0, "interpolation": interpolation, "height": height,
                             "width": width, "rgb": image.tobytes().hex()})
    return made


def main() -> None:
    keys = ("name", "picture", "img_size", "crop_pct", "crop_mode", "interpolation")
    for case in CASES:
        transformed(case).save(DATA / "transforms" / f"{case[0]}.ppm")
    made_with = {"pillow": PIL.__version__, "timm": timm.__version__, "torchvision": torchvision.__version__}
    cases = ",\n  ".join(json.dumps(dict(zip(keys, case, strict=True))) for case in CASES)
    text = (f'{{\n "made_with": {json.dumps(made_with)},\n "mean": {json.dumps(MEAN)},\n'
            f' "std": {json.dumps(STD)},\n "cases": [\n  {cases}\n ]\n}}\n')
    (DATA / "transforms" / "cases.json").write_text(text, encoding="utf-8")
    document = {"made_with": {"timm": timm.__version__, "Pillow": PIL.__version__}, "fill": FILL,
                "cases": [case for size in AUGMENTED_SIZES for case in augmented(*size)]}
    (DATA / "augmentations" / "cases.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
