"""Makes what `assets/` ships: the default checkpoint, sample pictures and labels.

    python scripts/make/make_assets.py SOURCE_DATA [--out assets]

SOURCE_DATA holds `weights/deit_tiny_patch16_224.safetensors`, `photos/*.jpg` and `synset_words.txt`. Needs numpy, Pillow and safetensors.
The checkpoint's and the labels' bytes depend on the source alone; the pictures' also on the version of libjpeg-turbo inside Pillow. Where
everything comes from and under which licence: assets/NOTICE.
"""

import argparse
import hashlib
import io
import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

from safetensors_writer import write_safetensors

MODEL_NAME = "deit_tiny_patch16_224"

# DeiT's own evaluation: shorter side to 256, centre crop of 224.
TRANSFORM = {"input_size": [3, 224, 224], "interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center",
             "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

PICTURE_WIDTH, PICTURE_MAX_BYTES = 1920, 600_000  # at most
# Name: photograph, and what of it (left, top, right, bottom), None for all. Each is a picture whose
# best class the bundled models name.
PICTURES = {
    "colosseum-arches.jpg": ("roman-colosseum.jpg", (850, 300, 2378, 1160)),
    "lake-sherburne.jpg": ("lake-sherburne.jpg", None),
    "lake-sherburne-peak.jpg": ("lake-sherburne.jpg", (288, 360, 2208, 1440)),
    "oakland-zoo-otters.jpg": ("oakland-zoo-otters.jpg", None),
    "otter-head.jpg": ("oakland-zoo-otters.jpg", (440, 0, 2147, 960)),
}


def make_checkpoint(source: Path, target: Path) -> None:
    """Rounds the float32 weights to float16."""
    tensors: dict[str, np.ndarray] = {}
    for name, tensor in load_file(source).items():
        tensors[name] = tensor.astype(np.float16)
        if not np.isfinite(tensors[name]).all():
            raise ValueError(f"{name}: a value does not fit into float16")
    metadata = {
        "format": "pt", "hydrascope.schema": "1", "arch": MODEL_NAME, "attention": "softmax", "img_size": "224", "num_classes": "1000",
        "transform": json.dumps(TRANSFORM, separators=(",", ":")), "labels": "imagenet1k", "license": "apache-2.0",
        "parent_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        # The script's place when the file was made: the converted models name the file by its SHA-256.
        "created_by": "hydrascope scripts/make_assets.py",
    }
    write_safetensors(target, tensors, metadata)


def encode_jpeg(picture: Image.Image) -> bytes:
    """Baseline JPEG of the highest quality that stays below PICTURE_MAX_BYTES, without metadata."""
    for quality in range(95, 49, -1):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality, optimize=True, progressive=False, exif=b"")
        if buffer.tell() < PICTURE_MAX_BYTES:
            return buffer.getvalue()
    raise ValueError("no quality from 50 up makes the picture small enough")


def make_picture(source: Path, box: tuple[int, int, int, int] | None, target: Path) -> None:
    """Cuts `box` out, and shrinks what is wider than PICTURE_WIDTH."""
    with Image.open(source) as opened:
        picture = opened.convert("RGB").crop(box)
    if picture.width > PICTURE_WIDTH:
        height = round(picture.height * PICTURE_WIDTH / picture.width)
        picture = picture.resize((PICTURE_WIDTH, height), Image.Resampling.LANCZOS)
    picture.info.clear()  # Pillow would carry the colour profile and the JFIF comment over.
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(encode_jpeg(picture))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source_data", type=Path, help="folder with weights/, photos/, synset_words.txt")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[2] / "assets")
    arguments = parser.parse_args()
    source, out = arguments.source_data, arguments.out

    checkpoint = out / "models" / f"{MODEL_NAME}.softmax.safetensors"
    make_checkpoint(source / "weights" / f"{MODEL_NAME}.safetensors", checkpoint)
    written = [checkpoint]
    for name, (photo, box) in PICTURES.items():
        written.append(out / "images" / name)
        make_picture(source / "photos" / photo, box, written[-1])
    written.append(out / "labels" / "imagenet1k.txt")
    written[-1].parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "synset_words.txt", written[-1])
    for path in written:
        print(f"{path.stat().st_size:>10,} bytes  {path}")


if __name__ == "__main__":
    main()
