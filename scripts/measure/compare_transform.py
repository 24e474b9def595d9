"""How far hydrascope's input tensors are from those of Pillow and timm.

    python scripts/measure/compare_transform.py FILE_OR_FOLDER... [--program build/release/hydrascope]
        [--limit 100] [--img-size HxW] [--crop-pct P] [--crop-mode M] [--interpolation I]

Runs `hydrascope classify --save-input` with EXIF orientation ignored, as timm does, and compares
with timm's evaluation transform. Differences are in grey levels: tensor * std * 255. Folders are
walked with their subfolders. Needs Pillow, timm, torch and numpy.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD, create_transform

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("inputs", nargs="+", type=Path)
    parser.add_argument("--program", type=Path, default=Path("build/release/hydrascope"))
    parser.add_argument("--limit", type=int, default=100, help="pictures at most, evenly spread")
    parser.add_argument("--img-size", default="224x224", help="height x width, one number: square")
    parser.add_argument("--crop-pct", type=float, default=0.875)
    parser.add_argument("--crop-mode", default="center", choices=["center", "squash", "border"])
    parser.add_argument(
        "--interpolation", default="bicubic", choices=["bicubic", "bilinear", "nearest"]
    )
    return parser.parse_args()


def pictures(inputs: list[Path], limit: int) -> list[Path]:
    """Files as given, folders walked in order; thinned out evenly to `limit`."""
    files: list[Path] = []
    for given in inputs:
        if given.is_dir():
            files += sorted(p for p in given.rglob("*") if p.suffix.lower() in SUFFIXES)
        else:
            files.append(given)
    if len(files) <= limit:
        return files
    return [files[i * len(files) // limit] for i in range(limit)]


def our_tensors(options: argparse.Namespace, files: list[Path]) -> np.ndarray:
    """(files, 3, height, width); rows of files that failed are NaN."""
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "files.txt"
        listing.write_text("".join(f"{file.resolve()}\n" for file in files), encoding="utf-8")
        tensors = Path(folder) / "input.npy"
        command = [
            options.program, "classify", f"@{listing}", "--save-input", tensors,
            "--set", "exif=ignore", "--img-size", options.img_size,
            "--crop-pct", options.crop_pct, "--crop-mode", options.crop_mode,
            "--interpolation", options.interpolation,
            "--mean", *IMAGENET_DEFAULT_MEAN,
            "--std", *IMAGENET_DEFAULT_STD,
        ]
        run = subprocess.run(
            [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, check=False,
        )
        if not tensors.exists():
            sys.exit(f"hydrascope failed ({run.returncode}): {run.stderr.strip()}")
        return np.load(tensors)


def main() -> None:
    options = arguments()
    files = pictures(options.inputs, options.limit)
    if not files:
        sys.exit("no pictures")
    edges = [int(edge) for edge in options.img_size.split("x")]
    height, width = edges[0], edges[-1]
    transform = create_transform(
        (3, height, width), is_training=False, interpolation=options.interpolation,
        mean=IMAGENET_DEFAULT_MEAN, std=IMAGENET_DEFAULT_STD,
        crop_pct=options.crop_pct, crop_mode=options.crop_mode,
    )
    to_levels = np.array(IMAGENET_DEFAULT_STD)[:, None, None] * 255
    ours = our_tensors(options, files)
    if len(ours) != len(files):
        sys.exit(f"{len(files)} pictures went in, {len(ours)} tensors came out")

    means, maxima, equal, failed = [], [], 0, []
    for file, tensor in zip(files, ours, strict=True):
        if np.isnan(tensor).any():
            failed.append(file)
            continue
        reference = transform(Image.open(file).convert("RGB")).numpy()
        # What --fit padded at right and bottom is not timm's.
        tensor = tensor[:, :height, :width]
        difference = np.abs(tensor - reference) * to_levels
        means.append(difference.mean())
        maxima.append(difference.max())
        equal += np.array_equal(tensor, reference)

    for file in failed:
        print(f"failed: {file}")
    if not means:
        sys.exit("no picture was decoded")
    compared = [file for file in files if file not in failed]
    print(f"pictures        {len(compared)}")
    print(f"max difference  {max(maxima):.3f} grey levels ({compared[int(np.argmax(maxima))]})")
    print(f"mean difference {np.mean(means):.5f} grey levels")
    print(f"worst mean      {max(means):.5f} grey levels ({compared[int(np.argmax(means))]})")
    print(f"exactly equal   {equal} ({100 * equal / len(compared):.1f} %)")


if __name__ == "__main__":
    main()
