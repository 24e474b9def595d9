"""Writes the colour tables of viz/: `viz/scale/colormap_tables.inc`.

    python scripts/make/make_colormaps.py [--out viz/scale/colormap_tables.inc]

viridis, inferno, magma, cividis and turbo are taken from matplotlib (3.10.3 made the file that is
kept); needs matplotlib and numpy. The diverging map is computed here, in OKLab (Ottosson 2020,
https://bottosson.github.io/posts/oklab/): equal steps of lightness from a light neutral grey in the
middle down to the same lightness at both ends, the same chroma on both sides, in a blue and an
orange hue. Blue against orange is told apart by all common kinds of colour blindness. Who made the
other tables, and under which licences, is in NOTICE.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

SEQUENTIAL = ["viridis", "inferno", "magma", "cividis", "turbo"]
DIVERGING = "blue-orange"
BLUE_HUE, ORANGE_HUE = np.radians(252.0), np.radians(52.0)
MIDDLE_LIGHTNESS, END_LIGHTNESS = 0.955, 0.52
MOST_CHROMA = 0.17

OKLAB_TO_LMS = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
)
LMS_TO_LINEAR = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def linear_rgb(lightness: float, chroma: float, hue: float) -> np.ndarray:
    lab = np.array([lightness, chroma * np.cos(hue), chroma * np.sin(hue)])
    return LMS_TO_LINEAR @ (OKLAB_TO_LMS @ lab) ** 3


def srgb_bytes(linear: np.ndarray) -> np.ndarray:
    linear = np.clip(linear, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(255 * srgb).astype(int)


def most_chroma(lightness: float) -> float:
    """The largest that sRGB has at this lightness in both hues."""
    low, high = 0.0, MOST_CHROMA
    for _ in range(40):
        middle = (low + high) / 2
        colors = [linear_rgb(lightness, middle, hue) for hue in (BLUE_HUE, ORANGE_HUE)]
        inside = all((color >= 0).all() and (color <= 1).all() for color in colors)
        low, high = (middle, high) if inside else (low, middle)
    return low


def diverging() -> np.ndarray:
    colors = []
    for entry in range(256):
        distance = abs(2 * entry / 255 - 1)
        lightness = MIDDLE_LIGHTNESS + (END_LIGHTNESS - MIDDLE_LIGHTNESS) * distance
        chroma = min(MOST_CHROMA * distance, most_chroma(lightness))
        colors.append(srgb_bytes(linear_rgb(lightness, chroma, BLUE_HUE if entry < 128 else ORANGE_HUE)))
    return np.array(colors)


def sequential(name: str) -> np.ndarray:
    return np.rint(255 * matplotlib.colormaps[name](np.arange(256))[:, :3]).astype(int)


def initialiser(name: str, is_diverging: bool, colors: np.ndarray) -> str:
    numbers = colors.reshape(-1).tolist()
    lines = ["    " + ", ".join(map(str, numbers[i : i + 18])) for i in range(0, len(numbers), 18)]
    return f'{{"{name}", {str(is_diverging).lower()}, {{\n' + ",\n".join(lines) + "}},\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("viz/scale/colormap_tables.inc"))
    out = parser.parse_args().out
    text = "// Written by scripts/make/make_colormaps.py: (name, diverging, 256 times red, green, blue). Origins: NOTICE.\n"
    for name in SEQUENTIAL:
        text += initialiser(name, False, sequential(name))
    text += initialiser(DIVERGING, True, diverging())
    out.write_text(text)


if __name__ == "__main__":
    main()
