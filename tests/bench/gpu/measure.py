"""Measures hydrascope on this machine's GPU beside PyTorch's fastest softmax, in one run.

    measure.py --hydrascope PROGRAM --kernel-bench PROGRAM [--images FOLDER] [--out FOLDER]

Called by scripts/gpu_check.sh; docs/gpu.md says what is measured and how. What decides a target is
measured in turns, so that a clock that changes hits both sides. Steps come in the order of their
weight and what --time-limit does not allow is left out and named; the result is written after every
step. Standard library only: PyTorch runs in worker.py under --python.

Exit codes: 0; 1 a step failed; 2 wrong usage; 77 no GPU.
"""

import argparse
import datetime
import json
import signal
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agreement
import targets
from programs import Clock, Failure, Worker, json_lines, run, say

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
RESULT = "model.json"
NO_GPU = 77
SEES_NO_GPU = "torch sees no GPU"  # as worker.py says it

Json = dict[str, Any]

ARCH = "deit_base_patch16_224"
LARGE, SMALL = [1088, 1920], [224, 224]
BACKENDS = ["flash", "cudnn", "efficient"]
BATCHES = [1, 2, 4, 8, 16]
SMALL_BATCH = 256
HEDGEHOG = {"tokens": 32768, "batch": 1}
KEPT = ("precision", "kernels", "gflops_per_image", "peak_memory_bytes", "tokens", "iterations")


def row_of(output: Json) -> Json:
    """A row of `hydrascope benchmark`, in the words of this result."""
    row = {"who": "hydrascope", "setting": "hydrascope"}
    row |= {key: output[key] for key in ("attention", "img_size", "batch", *KEPT)}
    row["ms_median"], row["ms_p90"] = output["ms_p50"], output["ms_p90"]
    row["images_per_second"] = output["images_per_second"]
    row["peak_tflops_measured"] = output["peak_tflops_measured"]
    if output.get("error"):
        row["error"] = output["error"]
    return row


class Run:
    """Everything that one run measures, and the result as it grows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.clock = Clock(arguments.time_limit)
        self.out: Path = arguments.out
        worker = [arguments.python, str(arguments.worker)]
        self.worker = Worker(worker, self.out / "worker.log", self.clock)
        self.failed = False
        self.result: Json = {
            "schema": 1,
            "header": {
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
                "rounds": arguments.rounds,
                "duration": arguments.duration,
            },
            "matrix_rate": [],
            "hedgehog_turns": [],
            "rows": [],
            "model_turns": [],
            "small_turns": [],
            "agreement": {},
            "remarks": [],
        }

    # What is asked of the programs.

    def benchmark(self, most: float = 200, **options: object) -> list[Json]:
        """Rows of one `hydrascope benchmark`; what it measured before it failed counts."""
        words = {
            "model": ARCH,
            "precision": "bfloat16",
            "device": self.arguments.device,
            "duration": self.arguments.duration,
            "format": "jsonl",
        } | {name.replace("_", "-"): value for name, value in options.items()}
        command = [str(self.arguments.hydrascope), "benchmark", "-q"]
        command += [f"--{name}={value}" for name, value in words.items()]
        output, why = run(command, self.clock, most)
        lines = json_lines(output)
        for line in lines:
            if "header" in line:
                self.result["header"].setdefault("hydrascope", line["header"])
        rows = [row_of(line) for line in lines if "header" not in line]
        if not rows:
            raise Failure(why or "hydrascope benchmark printed no row")
        if why:
            self.remark(f"hydrascope benchmark {' '.join(command[8:])}: {why}")
        return rows

    def vit(self, img_size: list[int], batch: int, most: float = 120, **job: object) -> Json:
        """A row of PyTorch's softmax; `backend` and `compile` say how."""
        setting = "timm" if "timm" in self.result["header"].get("versions", {}) else "plain torch"
        setting += f", {job['backend']}" if job.get("backend") else ""
        setting += f", torch.compile {job['compile']}" if job.get("compile") else ", eager"
        row = {
            "who": "torch",
            "setting": setting,
            "attention": "softmax",
            "img_size": img_size,
            "batch": batch,
            "precision": "bfloat16",
            "job": job,
        }
        try:
            row |= self.worker.ask(
                most,
                do="vit",
                img_size=img_size,
                batch=batch,
                duration=self.arguments.duration,
                **job,
            )
        except Failure as failure:
            row["error"] = str(failure)
        return row

    def remark(self, text: str) -> None:
        say(f"  {text}")
        self.result["remarks"].append(text)

    # The steps.

    def matrix_rate(self) -> None:
        self.result["matrix_rate"].append(self.worker.ask(do="matrix_rate", side=8192))

    def hedgehog_against_softmax(self) -> None:
        """The kernel of Hedgehog and every SDPA backend, in turns, at 32768 tokens."""
        program = str(self.arguments.kernel_bench)
        command = [program, "--launches", "30", "--filter", "^hedgehog forward.*32768"]
        for _ in range(self.arguments.rounds):
            turn: Json = {"sdpa_ms": {}, "sdpa_errors": {}}
            self.result["hedgehog_turns"].append(turn)
            output, why = run(command, self.clock)
            for line in json_lines(output):
                if line.get("cache") == "cold" and line["kernel"] == "hedgehog forward":
                    turn["hedgehog_ms"] = line["us_median"] / 1e3
            if why or "hedgehog_ms" not in turn:
                raise Failure(why or "kernel_bench printed no row of hedgehog")
            for backend in BACKENDS:
                try:
                    reply = self.worker.ask(do="sdpa", backend=backend, **HEDGEHOG)
                    turn["sdpa_ms"][backend] = reply["ms_median"]
                except Failure as failure:
                    turn["sdpa_errors"][backend] = str(failure)

    def hydrascope_at_1080p(self, attention: str) -> None:
        batches = ",".join(map(str, BATCHES))
        self.result["rows"] += self.benchmark(
            attn=attention, img_size="1088x1920", batch_size=batches
        )

    def softmax_of_torch(self) -> None:
        """Eager at one batch by every backend, then the fastest backend at all batches, then
        compiled at its best batch."""
        rows: list[Json] = self.result["rows"]
        trial = [self.vit(LARGE, 4, backend=backend) for backend in BACKENDS]
        rows += trial
        best = targets.fastest([row for row in trial if not row.get("error")])
        if best is None:
            raise Failure("; ".join(str(row["error"]) for row in trial))
        backend = best["job"]["backend"]
        rows += [self.vit(LARGE, batch, backend=backend) for batch in BATCHES if batch != 4]
        best = targets.fastest(targets.good(rows, "torch", "softmax", LARGE))
        assert best is not None
        rows.append(
            self.vit(
                LARGE,
                best["batch"],
                self.arguments.compile_limit,
                backend=best["job"]["backend"],
                compile="default",
            )
        )
        if rows[-1].get("error"):
            self.remark(f"{rows[-1]['setting']} at 1088x1920: {rows[-1]['error']}")

    def models_in_turns(self) -> None:
        """Hydra at its best batch against the fastest softmax of PyTorch and of hydrascope."""
        rows: list[Json] = self.result["rows"]
        hydra = targets.fastest(targets.good(rows, "hydrascope", "hydra", LARGE))
        own = targets.fastest(targets.good(rows, "hydrascope", "softmax", LARGE))
        torch = targets.fastest(targets.good(rows, "torch", "softmax", LARGE))
        if hydra is None:
            raise Failure("no row of Hydra to repeat")
        for _ in range(self.arguments.rounds):
            turn: Json = {"softmax": {}}
            self.result["model_turns"].append(turn)
            again = self.benchmark(
                attn="hydra", img_size="1088x1920", batch_size=f"1,{hydra['batch']}"
            )
            rows += again
            turn["hydra"] = max(row["images_per_second"] for row in again)
            if torch is not None:
                row = self.vit(LARGE, torch["batch"], **torch["job"])
                rows.append(row)
                turn["softmax"][torch["setting"]] = row.get("images_per_second")
            if own is not None:
                row = self.benchmark(
                    attn="softmax", img_size="1088x1920", batch_size=own["batch"]
                )[0]
                rows.append(row)
                turn["softmax"]["hydrascope"] = row["images_per_second"]

    def small_in_turns(self) -> None:
        """224 pixels, batch 256: hydrascope's softmax against PyTorch's, compiled if that works."""
        rows: list[Json] = self.result["rows"]
        job: Json = {"compile": "default"}
        first = self.vit(SMALL, SMALL_BATCH, self.arguments.compile_limit, **job)
        rows.append(first)
        if first.get("error"):
            self.remark(f"{first['setting']} at 224: {first['error']}")
            job = {}
        for _ in range(self.arguments.rounds):
            ours = self.benchmark(attn="softmax", img_size=224, batch_size=SMALL_BATCH)[0]
            theirs = self.vit(SMALL, SMALL_BATCH, **job)
            rows += [ours, theirs]
            self.result["small_turns"].append(
                {
                    "hydrascope": ours["images_per_second"],
                    "torch": theirs.get("images_per_second"),
                    "setting": theirs["setting"],
                }
            )

    def agreement(self) -> None:
        self.result["agreement"] = agreement.measure(
            self.arguments.hydrascope, self.arguments.images, self.out, self.clock
        )

    def preset_1080p(self) -> None:
        rows = self.benchmark(preset="1080p")
        self.result["rows"] += [row | {"setting": "--preset 1080p"} for row in rows]

    def run(self) -> int:
        try:
            self.result["header"] |= self.worker.ask(do="hello")
        except Failure as failure:
            self.remark(f"PyTorch: {failure}")
            self.write()
            if str(failure) == SEES_NO_GPU:
                return NO_GPU
            self.failed = True  # without PyTorch, hydrascope is measured all the same
        steps: list[tuple[str, float, Callable[[], None]]] = [
            ("the matrix rate", 10, self.matrix_rate),
            ("hedgehog against fused softmax", 20, self.hedgehog_against_softmax),
            ("Hydra at 1088x1920", 15, lambda: self.hydrascope_at_1080p("hydra")),
            ("softmax at 1088x1920", 15, lambda: self.hydrascope_at_1080p("softmax")),
            ("softmax of PyTorch at 1088x1920", 20, self.softmax_of_torch),
            ("models in turns", 20, self.models_in_turns),
            ("224 pixels in turns", 20, self.small_in_turns),
            ("agreement of CPU and GPU", 10, self.agreement),
            ("Hedgehog at 1088x1920", 15, lambda: self.hydrascope_at_1080p("hedgehog")),
            ("the preset 1080p", 15, self.preset_1080p),
            ("the matrix rate again", 10, self.matrix_rate),
        ]
        for name, needed, step in steps:
            say(f"{name} ({self.clock.left():.0f} s left)")
            try:
                self.clock.demand(needed)
                step()
            except Failure as failure:
                self.failed = self.failed or str(failure) != "no time was left"
                self.remark(f"{name}: {failure}")
            self.write()
        self.worker.end()
        return 1 if self.failed else 0

    def write(self) -> None:
        text = json.dumps(self.result, indent=1) + "\n"
        (self.out / RESULT).write_text(text, encoding="utf-8")


def self_test() -> int:
    sys.path.insert(0, str(HERE))
    names = ["measure_test", "targets_test", "report_test", "agreement_test", "gpu_check_test"]
    tests = unittest.defaultTestLoader.loadTestsFromNames(names)
    return 0 if unittest.TextTestRunner().run(tests).wasSuccessful() else 1


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    build = ROOT / "build/gpu"
    parser.add_argument("--hydrascope", type=Path, default=build / "hydrascope")
    parser.add_argument("--kernel-bench", type=Path, default=build / "tests/kernel_bench")
    parser.add_argument(
        "--images", type=Path, metavar="FOLDER", default=ROOT / "assets/images",
        help="pictures for the agreement of logits, labelled or not (default: the bundled ones)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=ROOT / "out/gpu/model")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch")
    parser.add_argument("--worker", type=Path, default=HERE / "worker.py", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3, help="of what is measured in turns")
    parser.add_argument("--duration", type=float, default=1, help="seconds of every measurement")
    parser.add_argument("--time-limit", type=float, default=450, help="seconds of the whole run")
    parser.add_argument(
        "--compile-limit", type=float, default=100, help="seconds that one torch.compile may take"
    )
    parser.add_argument("--self-test", action="store_true", help="run the unit tests and stop")
    arguments = parser.parse_args(words)
    if arguments.rounds < 1 or arguments.duration < 0 or arguments.time_limit <= 0:
        parser.error("--rounds must be at least 1, --duration at least 0, --time-limit positive")
    if not arguments.self_test and not arguments.images.is_dir():
        parser.error(f"--images {arguments.images}: no such folder")
    return arguments


def main() -> int:
    arguments = parse(sys.argv[1:])
    if arguments.self_test:
        return self_test()
    arguments.out.mkdir(parents=True, exist_ok=True)
    # `timeout` ends this process only; leaving by an exception ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    measuring = Run(arguments)
    try:
        return measuring.run()
    finally:
        measuring.worker.end()
        measuring.write()


if __name__ == "__main__":
    sys.exit(main())
