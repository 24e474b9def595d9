#!/usr/bin/env python3
"""Writes tests/data/jpeg: the same coefficients in one scan and in several, of rows longer than a page of memory.

Needs numpy and Pillow. Usage: scripts/make/make_wide_jpegs.py
"""

from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "jpeg"


def main() -> None:
    y, x = np.mgrid[0:640, 0:1040]
    channels = (x // 64 * 37 + y // 64 * 11, x // 64 * 5 + y // 32 * 29, y // 64 * 53 + x // 128 * 19)
    picture = Image.fromarray((np.stack(channels, axis=-1) % 256).astype(np.uint8))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, progressive in (("wide_progressive", True), ("wide_baseline", False)):
        picture.save(FOLDER / f"{name}.jpg", quality=30, progressive=progressive, optimize=True)


if __name__ == "__main__":
    main()
