"""Scenes of 1088x1920 pixels (height x width) in which one photograph of known class lies on a large background.

    python scripts/make/make_scenes.py OUTPUT --photographs FOLDER --backgrounds FOLDER [--count 500] [--sizes 150 299 600]
                                       [--seed 1] [--soft]
    python scripts/make/make_scenes.py OUTPUT --natural FOLDER

OUTPUT gets the scenes and labels.csv, which `hydrascope evaluate OUTPUT --labels-csv OUTPUT/labels.csv` reads: file, the class, size (longer
side of the photograph in the scene, in pixels), left and top (its corner), background, source (the photograph). FOLDER of photographs has
images.csv with the columns file and class_index. The size `fill` is no scene: the photograph is enlarged until it covers all of
1088x1920, and its centre is kept.

--soft: the same photographs lie at the same places without hard edges: their rims fade into the background over a tenth of their shorter
side, every second one is an ellipse, their mean colours move by 35 % to the place's, and they have a shadow. A model that finds pasted
edges loses there.

--natural: no scenes. FOLDER has photographs and objects.csv (file, class_indices, left, top, width, height; boxes as shares of the picture).
OUTPUT gets them enlarged to 1088 rows, and labels.csv with file, class_indices of all objects, and size, "small things" where the largest
box covers less than a tenth of the picture.

`backgrounds_of` alone decides which backgrounds are for training and which for evaluation. Every scene is drawn by the seed and its own
number, so that a smaller --count gives the first of the same scenes, and those of other machines are at the same places. They are JPEG of
quality 95 without chroma subsampling: a tenth of the size of PNG, and what photographs and backgrounds were before. Needs Pillow.
"""

from __future__ import annotations

import argparse
import csv
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

try:
    from PIL import Image, ImageDraw, ImageFilter, ImageStat
except ImportError:  # backgrounds_of does without
    Image = None

HEIGHT, WIDTH = 1088, 1920
FILL = "fill"
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}


class Photograph(NamedTuple):
    file: Path
    label: str  # class index


class Scene(NamedTuple):
    file: str  # relative to the output
    photograph: Photograph
    size: str  # pixels of the photograph's longer side, or FILL
    background: Path | None  # None with FILL
    across: float  # in [0, 1): where in the room that the photograph leaves
    down: float


def read_table(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def backgrounds_of(folder: Path, part: str) -> list[Path]:
    """The half of the folder's pictures that a part may use: in the order of their names the first, third, ... are for
    training, the second, fourth, ... for evaluation."""
    files = sorted((file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES), key=lambda file: file.name)
    return files[part == "evaluation" :: 2]


def labelled_photographs(folder: Path) -> list[Photograph]:
    """Those of images.csv."""
    return [Photograph(folder / row["file"], row["class_index"]) for row in read_table(folder / "images.csv")]


def plan_scenes(photographs: list[Photograph], backgrounds: list[Path], sizes: list[str], count: int, seed: int) -> list[Scene]:
    """The drawing plan, before a picture is opened: every photograph once before one comes again, sizes in turns.

    Only Random.random is used, the one method that Python promises to keep."""
    shuffle = Random(f"{seed}")
    # By name first: listings of the same folder may differ in order.
    order = sorted(sorted(photographs, key=lambda one: one.file.as_posix()), key=lambda _: shuffle.random())
    scenes = []
    for index in range(count):
        draw = Random(f"{seed} {index}")
        photograph = order[index % len(order)]
        # A photograph that comes again comes in the next size.
        size = sizes[(index + index // len(order)) % len(sizes)]
        background = backgrounds[int(draw.random() * len(backgrounds))] if size != FILL else None
        scenes.append(Scene(f"scene_{index:05}.jpg", photograph, size, background, draw.random(), draw.random()))
    return scenes


def cover(picture: Image.Image) -> Image.Image:
    """Resized to cover 1088x1920, its centre."""
    scale = max(HEIGHT / picture.height, WIDTH / picture.width)
    width, height = max(WIDTH, round(picture.width * scale)), max(HEIGHT, round(picture.height * scale))
    left, top = (width - WIDTH) // 2, (height - HEIGHT) // 2
    return picture.resize((width, height)).crop((left, top, left + WIDTH, top + HEIGHT))


def open_picture(file: Path) -> Image.Image:
    with Image.open(file) as picture:
        return picture.convert("RGB")


@cache
def background_picture(file: Path) -> Image.Image:
    return cover(open_picture(file))


def fading_mask(size: tuple[int, int], is_ellipse: bool) -> Image.Image:
    """255 inside, 0 at the rim."""
    softness = min(size) / 10
    mask = Image.new("L", size)
    # The blur reaches about as far as the form is inset.
    box = (softness / 2, softness / 2, size[0] - 1 - softness / 2, size[1] - 1 - softness / 2)
    if is_ellipse:
        ImageDraw.Draw(mask).ellipse(box, fill=255)
    else:
        ImageDraw.Draw(mask).rounded_rectangle(box, radius=min(size) / 8, fill=255)
    return mask.filter(ImageFilter.GaussianBlur(softness / 4))


def paste_softly(photograph: Image.Image, picture: Image.Image, left: int, top: int, is_ellipse: bool) -> None:
    right, bottom = left + photograph.width, top + photograph.height
    means = ImageStat.Stat(picture.crop((left, top, right, bottom))).mean
    bands = []
    for band, mean in zip(photograph.split(), means, strict=True):
        move = 0.35 * (mean - ImageStat.Stat(band).mean[0])
        bands.append(band.point([min(255, max(0, round(value + move))) for value in range(256)]))
    mask = fading_mask(photograph.size, is_ellipse)
    away = max(1, min(photograph.size) // 25)
    picture.paste((0, 0, 0), (left + away, top + away), mask.point([value * 2 // 5 for value in range(256)]))
    picture.paste(Image.merge("RGB", bands), (left, top), mask)


def draw_scene(scene: Scene, soft: bool = False) -> tuple[Image.Image, int, int]:
    """The picture, and left and top of the photograph. Pillow resizes bicubically, antialiased."""
    photograph = open_picture(scene.photograph.file)
    if scene.background is None:
        return cover(photograph), 0, 0
    scale = int(scene.size) / max(photograph.size)
    photograph = photograph.resize((max(1, round(photograph.width * scale)), max(1, round(photograph.height * scale))))
    left = int(scene.across * (WIDTH - photograph.width + 1))
    top = int(scene.down * (HEIGHT - photograph.height + 1))
    picture = background_picture(scene.background).copy()
    if soft:
        paste_softly(photograph, picture, left, top, is_ellipse=int(Path(scene.file).stem.rpartition("_")[2]) % 2 == 1)
    else:
        picture.paste(photograph, (left, top))
    return picture, left, top


def write_scenes(scenes: list[Scene], output: Path, photographs: Path, soft: bool = False) -> None:
    """`photographs`: the folder that the column source is relative to."""
    rows = []
    output.mkdir(parents=True, exist_ok=True)
    for scene in scenes:
        picture, left, top = draw_scene(scene, soft)
        picture.save(output / scene.file, quality=95, subsampling=0)
        rows.append({"file": scene.file, "class_index": scene.photograph.label, "size": scene.size, "left": left, "top": top,
                     "background": scene.background.name if scene.background else "",
                     "source": scene.photograph.file.relative_to(photographs).as_posix()})
    # Last: a folder with labels.csv is complete.
    write_table(output, rows)


def write_natural(folder: Path, output: Path) -> None:
    objects, rows = read_table(folder / "objects.csv"), []
    output.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(row["file"] for row in objects):
        found = [row for row in objects if row["file"] == name]
        picture = open_picture(folder / name)
        picture = picture.resize((round(picture.width * HEIGHT / picture.height), HEIGHT))
        picture.save(output / name, quality=95, subsampling=0)
        classes = dict.fromkeys(index for row in found for index in row["class_indices"].split())
        largest = max(float(row["width"]) * float(row["height"]) for row in found)
        rows.append({"file": name, "class_indices": " ".join(classes), "size": "small things" if largest < 0.1 else "others"})
    write_table(output, rows)


def write_table(output: Path, rows: list[dict[str, str | int]]) -> None:
    with (output / "labels.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--photographs", type=Path)
    parser.add_argument("--backgrounds", type=Path)
    parser.add_argument("--natural", type=Path, help="instead of the two: photographs to enlarge, with objects.csv")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--sizes", nargs="+", default=["150", "299", "600"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--soft", action="store_true", help="photographs without hard edges")
    arguments = parser.parse_args()
    if not all(size == FILL or size.isdecimal() and 1 <= int(size) <= HEIGHT for size in arguments.sizes):
        parser.error(f"--sizes are 1 to {HEIGHT} pixels or {FILL}")
    if Image is None:
        parser.error("Pillow is needed: python -m pip install pillow")
    if not arguments.natural and not (arguments.photographs and arguments.backgrounds):
        parser.error("--photographs and --backgrounds are needed")
    for needed in ([arguments.natural / "objects.csv"] if arguments.natural else [arguments.backgrounds, arguments.photographs / "images.csv"]):
        if not needed.exists():
            parser.error(f"no such file or folder: {needed}")
    if arguments.natural:
        write_natural(arguments.natural, arguments.output)
        return
    photographs, backgrounds = labelled_photographs(arguments.photographs), backgrounds_of(arguments.backgrounds, "evaluation")
    if not photographs or not backgrounds or arguments.count < 1:
        parser.error(f"nothing to draw: {len(photographs)} photographs, {len(backgrounds)} backgrounds, {arguments.count} scenes")
    scenes = plan_scenes(photographs, backgrounds, arguments.sizes, arguments.count, arguments.seed)
    write_scenes(scenes, arguments.output, arguments.photographs, arguments.soft)


if __name__ == "__main__":
    main()
