"""How close `hydrascope classify` comes to what its stages allow, over JPEG files.

    python scripts/measure/end_to_end.py --images FOLDER [--count 500] [-o FILE.json]

Takes turns: the model alone (`hydrascope benchmark`), then `classify -v` over the pictures, whose last
line on stderr says what decoding and transforming cost in core-seconds. Were the stages perfectly
overlapped on all cores, the rate would be

    expected = cores / (decode + transform + model)         in core-seconds per image,

with model = threads / (rate of the model alone). The share reached is the measured rate over that.
The round with the median rate is printed. A first pass, not counted, fills the page cache. Standard
library only.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from program import PROGRAM, Json, benchmark, run, table

# A round's figures, with the digits that are printed. Milliseconds are per image; core: of all cores together.
FIGURES = {
    "decode_ms_core": ("decode, core ms per image", ".2f"),
    "transform_ms_core": ("transform, core ms per image", ".2f"),
    "model_ms_core": ("model alone, core ms per image", ".2f"),
    "model_ms_wall": ("model in the pipeline, wall ms per image", ".2f"),
    "wait_ms_wall": ("model waiting for pictures, wall ms per image", ".2f"),
    "end_to_end_rate": ("end to end, images/s", ".1f"),
    "end_to_end_rate_with_startup": ("end to end with start-up, images/s", ".1f"),
    "model_only_rate": ("model alone, images/s", ".1f"),
    "expected_rate": ("expected, images/s", ".1f"),
    "share_reached": ("share of the expected rate reached", ".1%"),
}


def measure_round(arguments: argparse.Namespace, listing: Path) -> Json:
    settings = ["--device", "cpu", "--precision", "float32", "--img-size", arguments.img_size,
                "--batch-size", arguments.batch_size, "--threads", arguments.threads]
    model_only_rate = benchmark(arguments.hydrascope, *settings, "--iters", arguments.iters)["images_per_second"]
    workers = [] if arguments.workers is None else ["--workers", arguments.workers]
    classified = run([arguments.hydrascope, "classify", "-v", "--format", "jsonl", *settings, *workers, f"@{listing}"])
    timing = classified.timing()
    images = timing["images"]
    decode, transform = timing["decode_core_seconds"] / images, timing["transform_core_seconds"] / images
    model = arguments.threads / model_only_rate
    rate, expected = images / timing["seconds"], arguments.cores / (decode + transform + model)
    return {
        "decode_ms_core": decode * 1e3,
        "transform_ms_core": transform * 1e3,
        "model_ms_core": model * 1e3,
        "model_ms_wall": timing["model_seconds"] / images * 1e3,
        "wait_ms_wall": timing["wait_seconds"] / images * 1e3,
        "end_to_end_rate": rate,
        "end_to_end_rate_with_startup": images / classified.seconds,
        "model_only_rate": model_only_rate,
        "expected_rate": expected,
        "share_reached": rate / expected,
        "threads": int(timing["threads"]),
        "workers": int(timing["workers"]),
    }


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, metavar="FOLDER", help="JPEG files")
    parser.add_argument("--count", type=int, default=500, help="the first so many of the folder")
    parser.add_argument("--hydrascope", type=Path, default=PROGRAM)
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("--iters", type=int, default=10, help="forward passes of the model alone")
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("-j", "--workers", type=int, help="default: hydrascope's own choice")
    parser.add_argument("--cores", type=int, default=cores, help="what both sides may use together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write all rounds as JSON")
    arguments = parser.parse_args()

    files = sorted(file for file in arguments.images.iterdir() if file.suffix.lower() in {".jpg", ".jpeg"})[: arguments.count]
    if not files:
        parser.error(f"no JPEG files in {arguments.images}")
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "images.txt"
        listing.write_text("".join(f"{file.resolve()}\n" for file in files), encoding="utf-8")
        rounds = [measure_round(arguments, listing) for _ in range(arguments.rounds + 1)][1:]

    median = sorted(rounds, key=lambda each: each["end_to_end_rate"])[len(rounds) // 2]
    title = f"{len(files)} images, {arguments.cores} cores, {median['threads']} threads, {median['workers']} workers"
    print(table([title, ""], [[name, format(median[key], digits)] for key, (name, digits) in FIGURES.items()]))
    shares = [each["share_reached"] for each in rounds]
    print(f"share reached over {len(rounds)} rounds: {min(shares):.1%} to {max(shares):.1%}")
    if arguments.output:
        result = {"schema": 1, "images": len(files), "rounds": rounds}
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
