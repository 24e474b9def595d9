"""Top classes of one set of labelled pictures on two devices."""

import csv
from pathlib import Path
from typing import Any

from processes import Clock, Failure, json_lines, run

Json = dict[str, Any]
SETTINGS = [("cpu", "float32"), ("cuda", "bfloat16"), ("cuda", "float32")]


def compare(labels: dict[str, int], expected: dict[str, Json], found: dict[str, Json]) -> Json:
    """Both by file name: the first of the classes. A picture that one side lacks disagrees."""
    same = [
        name for name, top in expected.items() if found.get(name, {}).get("index") == top["index"]
    ]
    return {
        "images": len(expected),
        "top1": 100 * sum(top["index"] == labels[name] for name, top in found.items()) / len(labels),
        "same_top1": len(same),
        "percent_same_top1": 100 * len(same) / len(expected),
        "largest_difference": max(
            (abs(found[name]["logit"] - expected[name]["logit"]) for name in same), default=0.0
        ),
    }


def measure(program: Path, images: Path, clock: Clock) -> Json:
    """The bundled DeiT-Tiny: CPU float32 against the GPU in bfloat16 and float32."""
    with (images / "images.csv").open(encoding="utf-8") as file:
        labels = {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}
    result: Json = {"settings": []}
    expected: dict[str, Json] = {}
    for device, precision in SETTINGS:
        words = ["classify", str(images), "--device", device, "--precision", precision]
        output, why = run([str(program), *words, "--format", "jsonl", "--set", "progress=off"], clock)
        found = {
            Path(record["input"]).name: record["top"][0]
            for record in json_lines(output)
            if "top" in record
        }
        if why or not found:
            raise Failure(f"{device} {precision}: {why or 'no picture has a class'}")
        expected = expected or found
        setting = {"device": device, "precision": precision}
        result["settings"].append(setting | compare(labels, expected, found))
    return result
