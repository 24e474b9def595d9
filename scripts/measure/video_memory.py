"""Flicker and accuracy of a model's answers on videos, without and with a memory of earlier frames.

    python scripts/measure/video_memory.py PICTURES [--labels images.csv] [--pictures 60] [--frames 20] [--noise 16] [-o FILE.json]

Makes clips from the photographs of a folder, in a temporary folder: `still` is one view, in `pan` and `zoom` the view
moves over the photograph, in `occlusion` a grey bar a third as wide as the view passes, `cut` changes to the next
photograph half way. Every frame has Gaussian noise of its own, in levels of 8 bits. Flicker is the share of frames whose
class is another one than the frame's before. A right answer is the label's, with --labels (file, class_index), or else the
model's own answer to the photograph without noise. In `cut` the frames behind the cut count. Errors are standard errors
over clips. Time is the model's median for a frame, in batches of one, over the median without a memory; the methods of a
model take turns, a chunk of clips at a time, and the middle chunk counts. Needs NumPy and Pillow.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import math
import statistics
import struct
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from program import PROGRAM, Json, machine, run, table

EDGE = 256
KINDS = ("still", "pan", "zoom", "occlusion", "cut")
MODELS = ("softmax", "hedgehog", "hydra_last2")
CHUNK = 6  # pictures


def methods_of(model: str) -> dict[str, list[str]]:
    tokens = {"xl": ["--memory", "xl"], "compressive": ["--memory", "compressive"],
              "compressive, most used": ["--memory", "compressive", "--set", "memory-opt=compressive.by=most_used"]}
    state = {f"state {weight}": ["--memory", "state", "--memory-opt", f"state.lambda={weight}"] for weight in ("0.7", "0.9")}
    average = ["--video-average", "0.7"]
    return {"none": [], "average 0.7": average,
            **(tokens if model == "softmax" else state | {"state 0.7, average 0.7": [*state["state 0.7"], *average]})}


def write_avi(file: Path, frames: list[np.ndarray]) -> None:
    """Frames (height, width, 3) of bytes, RGB, without compression, 25 a second."""
    height, width, _ = frames[0].shape
    data = [np.ascontiguousarray(frame[::-1, :, ::-1]).tobytes() for frame in frames]
    size = len(data[0])
    assert size == height * width * 3 and width % 4 == 0

    def chunk(name: bytes, content: bytes) -> bytes:
        return name + struct.pack("<I", len(content)) + content

    def listed(name: bytes, content: bytes) -> bytes:
        return chunk(b"LIST", name + content)

    avih = struct.pack("<14I", 40000, size * 25, 0, 0x10, len(data), 0, 1, size, width, height, 0, 0, 0, 0)
    strh = b"vidsDIB " + struct.pack("<IHHIIIIIIII4H", 0, 0, 0, 0, 1, 25, 0, len(data), size, 0, 0, 0, 0, width, height)
    strf = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, size, 0, 0, 0, 0)
    header = listed(b"hdrl", chunk(b"avih", avih) + listed(b"strl", chunk(b"strh", strh) + chunk(b"strf", strf)))
    movie = listed(b"movi", b"".join(chunk(b"00db", frame) for frame in data))
    index = chunk(b"idx1", b"".join(struct.pack("<4sIII", b"00db", 0x10, 4 + i * (size + 8), size) for i in range(len(data))))
    file.write_bytes(chunk(b"RIFF", b"AVI " + header + movie + index))


def view(picture: Image.Image, left: float, top: float, side: float) -> np.ndarray:
    box = (left, top, left + side, top + side)
    return np.asarray(picture.resize((EDGE, EDGE), Image.Resampling.BICUBIC, box=box), dtype=np.float32)


def views(kind: str, picture: Image.Image, following: Image.Image, count: int) -> list[np.ndarray]:
    """The frames of a clip without noise."""
    width, height = picture.size
    shorter = min(width, height)
    middle = ((width - shorter) / 2, (height - shorter) / 2)
    frames = []
    for number in range(count):
        share = number / (count - 1)
        if kind == "pan":
            side = 0.75 * shorter
            frames.append(view(picture, share * (width - side), (height - side) / 2, side))
        elif kind == "zoom":
            side = (1 - 0.4 * share) * shorter
            frames.append(view(picture, (width - side) / 2, (height - side) / 2, side))
        elif kind == "cut" and 2 * number >= count:
            side = min(following.size)
            frames.append(view(following, (following.size[0] - side) / 2, (following.size[1] - side) / 2, side))
        else:
            frame = view(picture, *middle, shorter).copy()
            if kind == "occlusion":
                begin = round((share * 4 / 3 - 1 / 3) * EDGE)
                frame[:, max(0, begin):max(0, begin + EDGE // 3)] = 128
            frames.append(frame)
    return frames


def classify(arguments: argparse.Namespace, model: str, words: list[object], options: list[object]) -> list[Json]:
    said = run([arguments.hydrascope, "classify", *words, "-m", f"deit_tiny_patch16_224.{model}", "--video-stride", 1,
                "--format", "jsonl", "--topk", 1, "--device", "cpu", "--precision", "float32", "--threads", arguments.threads,
                "--views", "whole", *options])
    return [json.loads(line) for line in said.output.splitlines()]


def mean_and_error(values: list[float]) -> tuple[float, float]:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.fmean(values), error


def percent(values: list[float]) -> str:
    mean, error = mean_and_error(values)
    return f"{100 * mean:.1f} +- {100 * error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--pictures", type=int, default=60)
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--noise", type=float, default=16)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hydrascope", default=PROGRAM)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    files = sorted(file for file in arguments.folder.iterdir() if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
    files = files[::max(1, len(files) // arguments.pictures)][:arguments.pictures]
    labels = {}
    if arguments.labels:
        with arguments.labels.open(newline="", encoding="utf-8") as rows:
            labels = {row["file"]: int(row["class_index"]) for row in csv.DictReader(rows)}
    generator = np.random.default_rng(0)
    flicker: dict[tuple[str, str], dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    right: dict[tuple[str, str], dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    seconds: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for begin in range(0, len(files), CHUNK):
        chunk = [*files[begin:begin + CHUNK], files[(begin + CHUNK) % len(files)]]
        with tempfile.TemporaryDirectory() as folder:
            pictures = [Image.open(file).convert("RGB") for file in chunk]
            clips = []  # file, kind, number of the picture that is right
            for number in range(len(chunk) - 1):
                for kind in KINDS:
                    file = Path(folder) / f"{kind}_{number}.avi"
                    frames = views(kind, pictures[number], pictures[number + 1], arguments.frames)
                    write_avi(file, [np.clip(frame + generator.normal(0, arguments.noise, frame.shape), 0, 255).round().astype(np.uint8)
                                     for frame in frames])
                    clips.append((file, kind, number + (kind == "cut")))
            for model in arguments.models.split(","):
                truth = [labels[file.name] for file in chunk] if labels else [
                    record["top"][0]["index"] for record in classify(arguments, model, list(chunk), ["--batch-size", 1])]
                for name, options in methods_of(model).items():
                    records = classify(arguments, model, [file for file, _, _ in clips], ["--batch-size", 1, *options])
                    by_clip = collections.defaultdict(list)
                    for record in records:
                        by_clip[record["input"]].append(record["top"][0]["index"])
                    seconds[model, name].append(statistics.median(record["seconds"] for record in records))
                    for file, kind, number in clips:
                        found = by_clip[str(file)]
                        assert len(found) == arguments.frames, (file, len(found))
                        judged = found[(arguments.frames + 1) // 2:] if kind == "cut" else found
                        flicker[model, name][kind].append(statistics.fmean(a != b for a, b in zip(judged, judged[1:])))
                        right[model, name][kind].append(statistics.fmean(index == truth[number] for index in judged))
    print(f"{machine()}, float32, {arguments.threads} threads, batches of one; {len(files)} pictures, {arguments.frames} frames a clip, "
          f"noise of {arguments.noise:g} levels\n")
    rows = []
    for model in arguments.models.split(","):
        for name in methods_of(model):
            found = flicker[model, name], right[model, name]
            times = statistics.median(now / then for now, then in zip(seconds[model, name], seconds[model, "none"], strict=True))
            rows.append([model, name, percent(found[0]["still"]), *(percent(found[1][kind]) for kind in KINDS), f"{times:.2f}"])
    print(table(["model", "memory", "flicker, still", *(f"right, {kind}" for kind in KINDS), "time"], rows, texts=2))
    if arguments.output:
        arguments.output.write_text(json.dumps({
            "machine": machine(), "pictures": len(files), "frames": arguments.frames, "noise": arguments.noise,
            "rows": [{"model": model, "memory": name, "seconds": seconds[model, name],
                      "flicker": {kind: mean_and_error(values) for kind, values in flicker[model, name].items()},
                      "right": {kind: mean_and_error(values) for kind, values in right[model, name].items()}}
                     for model, name in flicker]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
