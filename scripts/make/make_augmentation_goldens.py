"""The results of timm's RandAugment operations on a synthetic picture, for rand_augment_test.cpp.

    python scripts/make/make_augmentation_goldens.py

Writes tests/data/augmentations/cases.json: an operation, its argument, and the bytes that timm with Pillow gives, in hexadecimal. The
picture is not stored: rand_augment_test.cpp has the formula of `picture`, too. Needs Pillow, timm, numpy.
"""

import json
from pathlib import Path

import numpy as np
import PIL
import timm
from PIL import Image
from timm.data.auto_augment import NAME_TO_OP

FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "augmentations" / "cases.json"
# Enough pixels for equalize to do something; then a pixel, lines, and what filters cannot reach into.
SIZES = [(21, 16), (1, 1), (1, 9), (9, 1), (2, 2)]
FILL = (124, 116, 104)

# Operation here, operation of timm, arguments.
CASES = [
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
    values = 20 + (x * (11 + 2 * c) + y * (7 - c) * 2 + (x * y // 3) * (c + 1) + 40 * c) % 200
    return Image.fromarray(values.astype(np.uint8))


def cases(height: int, width: int) -> list[dict[str, object]]:
    made = []
    for name, timm_name, arguments in CASES:
        for argument in arguments:
            for interpolation in ("bilinear", "bicubic") if name in MOVING else ("bilinear",):
                image = NAME_TO_OP[timm_name](picture(height, width), *(() if argument is None else (argument,)), fillcolor=FILL,
                                              resample=getattr(Image.Resampling, interpolation.upper()))
                made.append({"operation": name, "argument": argument or 0, "interpolation": interpolation, "height": height,
                             "width": width, "rgb": image.tobytes().hex()})
    return made


def main() -> None:
    document = {"made_with": {"timm": timm.__version__, "Pillow": PIL.__version__}, "fill": FILL,
                "cases": [case for size in SIZES for case in cases(*size)]}
    FILE.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
