"""Measures timm's eager float32 model against hydrascope's, in turns, with the same threads.

    python tests/bench/peers/bench_timm.py [OPTIONS] [COMMAND...]

COMMAND is hydrascope's side (default: build/release/tests/model_bench). It is called with
`--batch B --img-size S --iters K --threads T` appended and prints one JSON line with
`images_per_second` and `ms_p50`. timm's side is this file with `--child` in a process of the same
shape: warm-up, K timed forward passes of one batch, tensor in and logits out. Turns go timm,
hydrascope, timm, ..., so that both meet the same clock speeds and neighbours; the ratio is taken
within a round, from the means (images/s) and from the medians (p50) of both turns. On a machine
with other work two identical sides are easily a factor of two apart, so the load at the start is
printed. timm's weights are random: no value of theirs changes the work. Needs torch and timm
(bench_timm.sh makes a venv).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WARMUP_ITERATIONS = 3


def measure_timm(
    arch: str, batch: int, img_size: int, iters: int, threads: int
) -> dict[str, float]:
    """Times `iters` forward passes in this process."""
    import timm  # Imported here: the parent process runs where only the child needs torch.
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = timm.create_model(arch, img_size=img_size).eval()
    images = torch.randn(batch, 3, img_size, img_size)
    seconds: list[float] = []
    with torch.inference_mode():
        for _ in range(WARMUP_ITERATIONS):
            model(images)
        for _ in range(iters):
            begin = time.perf_counter()
            model(images)
            seconds.append(time.perf_counter() - begin)
    return {
        "images_per_second": batch * iters / sum(seconds),
        "ms_p50": statistics.median(seconds) * 1e3,
    }


def run_side(command: list[str], threads: int) -> dict[str, float]:
    """Runs one side once and returns the JSON object it printed."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    finished = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    lines = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode != 0 or not lines:
        sys.exit(
            f"error: exit code {finished.returncode}, {len(lines)} JSON lines: {' '.join(command)}"
        )
    result: dict[str, float] = json.loads(lines[-1])
    return result


def cpu_model() -> str:
    """The name the kernel gives the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def compare(arguments: argparse.Namespace) -> dict[str, object]:
    """Runs all rounds, printing each as it ends."""
    shape = [
        "--batch-size", str(arguments.batch),
        "--img-size", str(arguments.img_size),
        "--iters", str(arguments.iters),
        "--threads", str(arguments.threads),
    ]  # fmt: skip
    sides = {
        "timm": [sys.executable, __file__, "--child", "--arch", arguments.arch, *shape],
        "hydrascope": [*arguments.command, *shape],
    }
    load = os.getloadavg()[0]
    print(
        f"{cpu_model()}, {arguments.threads} threads; {arguments.arch}, float32, "
        f"batch {arguments.batch}, {arguments.img_size} px, {arguments.iters} iterations per turn; "
        f"load at the start {load:.2f}"
    )
    print("round   timm img/s   hydrascope img/s   ratio   ratio of p50", flush=True)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    ratios: list[float] = []
    p50_ratios: list[float] = []
    for index in range(arguments.rounds):
        turn = {name: run_side(command, arguments.threads) for name, command in sides.items()}
        for name, measured in turn.items():
            rates[name].append(measured["images_per_second"])
        ratios.append(rates["hydrascope"][-1] / rates["timm"][-1])
        p50_ratios.append(turn["timm"]["ms_p50"] / turn["hydrascope"]["ms_p50"])
        print(
            f"{index + 1:5} {rates['timm'][-1]:12.2f} {rates['hydrascope'][-1]:18.2f} "
            f"{ratios[-1]:7.3f} {p50_ratios[-1]:14.3f}",
            flush=True,
        )

    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(
        f"median {medians['timm']:11.2f} {medians['hydrascope']:18.2f} "
        f"{statistics.median(ratios):7.3f} {statistics.median(p50_ratios):14.3f}\n"
        f"ratio {min(ratios):.3f} to {max(ratios):.3f}, "
        f"of p50 {min(p50_ratios):.3f} to {max(p50_ratios):.3f}"
    )
    return {
        "schema": 1,
        "cpu": cpu_model(),
        "load_at_start": load,
        "threads": arguments.threads,
        "arch": arguments.arch,
        "batch": arguments.batch,
        "img_size": arguments.img_size,
        "iterations": arguments.iters,
        "images_per_second": rates,
        "median_images_per_second": medians,
        "ratios": ratios,
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "p50_ratios": p50_ratios,
        "p50_ratio_median": statistics.median(p50_ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="deit_tiny_patch16_224", help="timm's name of the model")
    parser.add_argument("--batch", "--batch-size", type=int, default=32)
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("--iters", type=int, default=10, help="timed forward passes per turn")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also write the result as JSON"
    )
    parser.add_argument("--child", action="store_true", help="be timm's side: print one JSON line")
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        help="hydrascope's side and its own arguments (default: build/release/tests/model_bench)",
    )
    arguments = parser.parse_args()
    if arguments.child:
        print(
            json.dumps(
                measure_timm(
                    arguments.arch,
                    arguments.batch,
                    arguments.img_size,
                    arguments.iters,
                    arguments.threads,
                )
            )
        )
        return
    if arguments.command[:1] == ["--"]:
        arguments.command = arguments.command[1:]
    arguments.command = arguments.command or [str(ROOT / "build/release/tests/model_bench")]
    if not Path(arguments.command[0]).is_file():
        parser.error(f"{arguments.command[0]} does not exist: build the release preset first")
    result = compare(arguments)
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
