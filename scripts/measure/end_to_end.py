"""How close `hydrascope classify` comes to what its stages allow, over JPEG files.

    python scripts/measure/end_to_end.py --images FOLDER [--count 500] [-o FILE.json]

Takes turns: the model alone (tests/model_bench), then `classify -v` over the pictures, whose last
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
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"


@dataclass(frozen=True)
class Timing:
    """The line that `classify -v` ends with."""

    images: int
    seconds: float
    decode_core_seconds: float
    transform_core_seconds: float
    model_seconds: float
    wait_seconds: float
    threads: int
    workers: int

    @staticmethod
    def parse(stderr: str) -> "Timing":
        lines = [line for line in stderr.splitlines() if line.startswith("timing: ")]
        if not lines:
            raise ValueError("no line `timing: ...` on stderr")
        values = dict(re.findall(r"(\w+)=(\S+)", lines[-1]))
        kinds = Timing.__annotations__
        missing = sorted(kinds.keys() - values.keys())
        if missing:
            raise ValueError(f"the timing line lacks {', '.join(missing)}: {lines[-1]}")
        return Timing(**{name: kind(values[name]) for name, kind in kinds.items()})


@dataclass(frozen=True)
class Round:
    """One turn of each side. Milliseconds are per image; `_core` counts all cores' time."""

    decode_ms_core: float
    transform_ms_core: float
    model_ms_core: float
    model_ms_wall: float
    wait_ms_wall: float
    end_to_end_rate: float
    end_to_end_rate_with_startup: float
    model_only_rate: float
    expected_rate: float
    share_reached: float
    threads: int
    workers: int


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        print(finished.stderr[-2000:], file=sys.stderr)
        sys.exit(f"error: exit code {finished.returncode}: {' '.join(command)}")
    return finished


def measure_model(arguments: argparse.Namespace) -> float:
    """Images per second, tensor in, logits out."""
    shape = {
        "--batch-size": arguments.batch_size,
        "--img-size": arguments.img_size,
        "--iters": arguments.iters,
        "--threads": arguments.threads,
    }
    options = [str(word) for pair in shape.items() for word in pair]
    output = run([str(arguments.model_bench), *options]).stdout
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(f"error: {arguments.model_bench} printed no JSON line")
    return float(json.loads(lines[-1])["images_per_second"])


def measure_classify(arguments: argparse.Namespace, listing: Path) -> tuple[Timing, float]:
    """The program's own account and the seconds of the whole process."""
    command = [str(arguments.hydrascope), "classify", "-v", "--format", "jsonl", "--device", "cpu", "--precision", "float32"]
    command += ["--img-size", str(arguments.img_size), "--batch-size", str(arguments.batch_size)]
    command += ["--threads", str(arguments.threads)]
    if arguments.workers is not None:
        command += ["--workers", str(arguments.workers)]
    begin = time.perf_counter()
    finished = run([*command, f"@{listing}"])
    seconds = time.perf_counter() - begin
    try:
        return Timing.parse(finished.stderr), seconds
    except ValueError as error:
        sys.exit(f"error: {error} ({' '.join(command)})")


def measure_round(arguments: argparse.Namespace, listing: Path) -> Round:
    model_only_rate = measure_model(arguments)
    timing, process_seconds = measure_classify(arguments, listing)
    decode = timing.decode_core_seconds / timing.images
    transform = timing.transform_core_seconds / timing.images
    model = arguments.threads / model_only_rate
    rate = timing.images / timing.seconds
    expected = arguments.cores / (decode + transform + model)
    return Round(
        decode_ms_core=decode * 1e3,
        transform_ms_core=transform * 1e3,
        model_ms_core=model * 1e3,
        model_ms_wall=timing.model_seconds / timing.images * 1e3,
        wait_ms_wall=timing.wait_seconds / timing.images * 1e3,
        end_to_end_rate=rate,
        end_to_end_rate_with_startup=timing.images / process_seconds,
        model_only_rate=model_only_rate,
        expected_rate=expected,
        share_reached=rate / expected,
        threads=timing.threads,
        workers=timing.workers,
    )


def table(round_: Round, images: int, cores: int) -> str:
    """Markdown."""
    rows = [
        ("decode, core ms per image", f"{round_.decode_ms_core:.2f}"),
        ("transform, core ms per image", f"{round_.transform_ms_core:.2f}"),
        ("model alone, core ms per image", f"{round_.model_ms_core:.2f}"),
        ("model in the pipeline, wall ms per image", f"{round_.model_ms_wall:.2f}"),
        ("model waiting for pictures, wall ms per image", f"{round_.wait_ms_wall:.2f}"),
        ("end to end, images/s", f"{round_.end_to_end_rate:.1f}"),
        ("end to end with start-up, images/s", f"{round_.end_to_end_rate_with_startup:.1f}"),
        ("model alone, images/s", f"{round_.model_only_rate:.1f}"),
        ("expected, images/s", f"{round_.expected_rate:.1f}"),
        ("share of the expected rate reached", f"{round_.share_reached:.1%}"),
    ]
    title = f"{images} images, {cores} cores, {round_.threads} threads, {round_.workers} workers"
    return "\n".join([f"| {title} | |", "|---|---:|", *(f"| {name} | {x} |" for name, x in rows)])


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path, required=True, metavar="FOLDER", help="JPEG files")
    parser.add_argument("--count", type=int, default=500, help="the first so many of the folder")
    parser.add_argument("--hydrascope", type=Path, default=RELEASE / "hydrascope")
    parser.add_argument("--model-bench", type=Path, default=RELEASE / "tests" / "model_bench")
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("--iters", type=int, default=10, help="forward passes of model_bench")
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("-j", "--workers", type=int, help="default: hydrascope's own choice")
    parser.add_argument("--cores", type=int, default=cores, help="what both sides may use together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also write all rounds as JSON"
    )
    arguments = parser.parse_args()

    suffixes = {".jpg", ".jpeg"}
    files = sorted(file for file in arguments.images.iterdir() if file.suffix.lower() in suffixes)
    files = files[: arguments.count]
    if not files:
        parser.error(f"no JPEG files in {arguments.images}")
    for program in (arguments.hydrascope, arguments.model_bench):
        if not program.is_file():
            parser.error(f"{program} does not exist: build the release preset first")

    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "images.txt"
        listing.write_text("".join(f"{file.resolve()}\n" for file in files), encoding="utf-8")
        measure_classify(arguments, listing)
        rounds = [measure_round(arguments, listing) for _ in range(arguments.rounds)]

    by_rate = sorted(rounds, key=lambda each: each.end_to_end_rate)
    median = by_rate[len(by_rate) // 2]
    print(table(median, len(files), arguments.cores))
    shares = [each.share_reached for each in rounds]
    print(f"\nshare reached over {len(rounds)} rounds: {min(shares):.1%} to {max(shares):.1%}")
    if arguments.output:
        result = {"schema": 1, "images": len(files), "rounds": [asdict(each) for each in rounds]}
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
