"""Makes what `assets/` ships: the default checkpoint, sample pictures, labels and their NOTICE.

    python scripts/make/make_assets.py SOURCE_DATA [--out assets]

SOURCE_DATA is the folder that holds `weights/deit_tiny_patch16_224.safetensors`, `photos/*.jpg` and
`synset_words.txt`. Needs numpy, Pillow and safetensors. The checkpoint's and the labels' bytes
depend on the source alone; the pictures' also on the version of libjpeg-turbo inside Pillow. Where
everything comes from and under which licence: the text of NOTICE below.
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
TRANSFORM = {
    "input_size": [3, 224, 224],
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
}

PICTURE_SIZE = (1920, 1080)  # width, height
PICTURE_MAX_BYTES = 600_000

NOTICE = """\
What lies in this folder and who made it
========================================

models/deit_tiny_patch16_224.softmax.safetensors
    DeiT-Tiny/16 at 224 pixels, trained on ImageNet-1k (1000 classes).
    Origin: facebookresearch/deit, Copyright (c) 2015-present, Facebook, Inc.;
    float export by wvfunc/matlab-bit_true-deit_tiny-fix (80f2a914), in which the weights of the
    layer norms are rounded to steps of 1/32 to 1/64.
    Paper: Touvron et al., Training data-efficient image transformers & distillation through
    attention, arXiv 2012.12877.
    Changes: float32 rounded to float16; metadata added. SHA-256 of the float32 file:
    {parent_sha256}
    Licence: Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0

images/lake-sherburne.jpg       a mountain lake (photograph: Jacob W. Frank)
images/oakland-zoo-otters.jpg   North American river otters (photograph: Derrick Coetzee)
images/roman-colosseum.jpg      the Colosseum in Rome
images/the-spices-of-life.jpg   a spice market
    Origin: BuddiesOfBudgie/budgie-backgrounds, whose maintainers publish the collection under CC0.
    Changes: resized and centre-cropped to 1920x1080, compressed again, embedded metadata removed.
    Licence: CC0 1.0, https://creativecommons.org/publicdomain/zero/1.0/

labels/imagenet1k.txt
    The 1000 classes of ImageNet-1k in index order: a WordNet synset id, a space, the names.
    Origin: `synset_words.txt`, the class list that goes with ILSVRC 2012 models; unchanged.

fonts/DejaVuSans-subset.ttf
    DejaVu Sans 2.37, https://dejavu-fonts.github.io/: Bitstream, Inc., and the DejaVu authors.
    Changes: Latin, Greek, Cyrillic and signs only; hinting and layout tables removed
    (scripts/make/make_font.py).
    Licence: fonts/DejaVuSans-LICENSE.txt (Bitstream Vera, Arev; changes in the public domain)
"""


def make_checkpoint(source: Path, target: Path) -> str:
    """Rounds the float32 weights to float16 and returns the SHA-256 of the float32 file."""
    parent_sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
    tensors: dict[str, np.ndarray] = {}
    for name, tensor in load_file(source).items():
        tensors[name] = tensor.astype(np.float16)
        if not np.isfinite(tensors[name]).all():
            raise ValueError(f"{name}: a value does not fit into float16")
    metadata = {
        "format": "pt",
        "hydrascope.schema": "1",
        "arch": MODEL_NAME,
        "attention": "softmax",
        "img_size": "224",
        "num_classes": "1000",
        "transform": json.dumps(TRANSFORM, separators=(",", ":")),
        "labels": "imagenet1k",
        "license": "apache-2.0",
        "parent_sha256": parent_sha256,
        # Where this script lay when the file was made: the converted models name the file by its SHA-256.
        "created_by": "hydrascope scripts/make_assets.py",
    }
    write_safetensors(target, tensors, metadata)
    return parent_sha256


def encode_jpeg(picture: Image.Image) -> bytes:
    """Baseline JPEG of the highest quality that stays below PICTURE_MAX_BYTES, without metadata."""
    for quality in range(95, 49, -1):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality, optimize=True, progressive=False, exif=b"")
        if buffer.tell() < PICTURE_MAX_BYTES:
            return buffer.getvalue()
    raise ValueError("no quality from 50 up makes the picture small enough")


def make_picture(source: Path, target: Path) -> None:
    """Covers PICTURE_SIZE, keeping the aspect ratio, and cuts the centre out."""
    width, height = PICTURE_SIZE
    with Image.open(source) as opened:
        picture = opened.convert("RGB")
    scale = max(width / picture.width, height / picture.height)
    cover = (max(width, round(picture.width * scale)), max(height, round(picture.height * scale)))
    picture = picture.resize(cover, Image.Resampling.LANCZOS)
    left, top = (cover[0] - width) // 2, (cover[1] - height) // 2
    picture = picture.crop((left, top, left + width, top + height))
    picture.info.clear()  # Pillow would carry the colour profile and the JFIF comment over.
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(encode_jpeg(picture))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source_data", type=Path, help="folder with weights/, photos/, synset_words.txt"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parents[2] / "assets"
    )
    arguments = parser.parse_args()
    source, out = arguments.source_data, arguments.out

    checkpoint = out / "models" / f"{MODEL_NAME}.softmax.safetensors"
    parent_sha256 = make_checkpoint(source / "weights" / f"{MODEL_NAME}.safetensors", checkpoint)
    written = [checkpoint]
    for photo in sorted((source / "photos").glob("*.jpg")):
        written.append(out / "images" / photo.name)
        make_picture(photo, written[-1])
    written.append(out / "labels" / "imagenet1k.txt")
    written[-1].parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "synset_words.txt", written[-1])
    written.append(out / "NOTICE")
    written[-1].write_text(NOTICE.format(parent_sha256=parent_sha256), encoding="utf-8")
    for path in written:
        print(f"{path.stat().st_size:>10,} bytes  {path}")


if __name__ == "__main__":
    main()
