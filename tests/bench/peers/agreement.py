"""Logits of one set of pictures on two devices: how often the top class is the same."""

import array
import ast
import math
import struct
from pathlib import Path
from typing import Any

from processes import Clock, Failure, json_lines, run

Json = dict[str, Any]
MAGIC = b"\x93NUMPY"


def read_npy(file: Path) -> tuple[int, "array.array[float]"]:
    """Columns and values of a float32 matrix in C order (NEP 1, versions 1 to 3)."""
    data = file.read_bytes()
    if data[:6] != MAGIC:
        raise Failure(f"{file.name} is no .npy file")
    size, begin = (struct.unpack("<H", data[8:10])[0], 10)
    if data[6] > 1:
        size, begin = (struct.unpack("<I", data[8:12])[0], 12)
    header = ast.literal_eval(data[begin : begin + size].decode("latin1"))
    shape = header["shape"]
    if header["descr"] != "<f4" or header["fortran_order"] or len(shape) != 2:
        raise Failure(f"{file.name} is no float32 matrix: {header}")
    values = array.array("f")
    values.frombytes(data[begin + size :])
    if len(values) != shape[0] * shape[1]:
        raise Failure(f"{file.name} is cut off")
    return shape[1], values


def compare(expected: Path, found: Path) -> Json:
    """Pictures whose row is NaN on both sides (unreadable files) do not count; on one side they
    disagree."""
    columns, a = read_npy(expected)
    other_columns, b = read_npy(found)
    if (columns, len(a)) != (other_columns, len(b)):
        raise Failure("the two devices' logits differ in shape")
    images = same = 0
    difference = scale = 0.0
    for begin in range(0, len(a), columns):
        x, y = a[begin : begin + columns], b[begin : begin + columns]
        missing = [any(math.isnan(value) for value in row) for row in (x, y)]
        if all(missing):
            continue
        images += 1
        if any(missing):
            continue
        same += x.index(max(x)) == y.index(max(y))
        difference += sum((p - q) ** 2 for p, q in zip(x, y, strict=True))
        scale += sum(p * p for p in x)
    if images == 0:
        raise Failure("no picture has logits")
    return {
        "images": images,
        "same_top1": same,
        "percent_same_top1": 100 * same / images,
        "relative_difference": math.sqrt(difference / scale) if scale > 0 else 0.0,
    }


def command(program: Path, images: Path) -> list[str]:
    """`evaluate` where there are labels, `classify` where there are pictures only."""
    labels = images / "images.csv"
    if labels.is_file():
        return [str(program), "evaluate", str(images), "--labels-csv", str(labels)]
    if any(each.is_dir() for each in images.iterdir()):
        return [str(program), "evaluate", str(images)]
    return [str(program), "classify", str(images)]


def measure(program: Path, images: Path, out: Path, clock: Clock) -> Json:
    """The bundled DeiT-Tiny: CPU float32 against the GPU in bfloat16 and float32."""
    settings = [("cpu", "float32"), ("cuda", "bfloat16"), ("cuda", "float32")]
    files = {}
    result: Json = {"folder": images.name, "settings": []}
    for device, precision in settings:
        file = out / f"logits_{device}_{precision}.npy"
        words = ["--device", device, "--precision", precision, "--save-logits", str(file)]
        output, why = run(
            [*command(program, images), *words, "--format", "jsonl", "--no-progress"], clock
        )
        if why:
            raise Failure(f"{device} {precision}: {why}")
        files[device, precision] = file
        records = json_lines(output)
        entry: Json = {"device": device, "precision": precision}
        if records and "top1" in records[-1]:
            entry["top1"] = records[-1]["top1"]
        if device != "cpu":
            entry |= compare(files["cpu", "float32"], file)
        result["settings"].append(entry)
    return result
