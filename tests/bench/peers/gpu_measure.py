"""Measures hydrascope on this machine's GPU beside PyTorch's fastest softmax, in one run.

    gpu_measure.py --hydrascope PROGRAM --kernel-bench PROGRAM [--images FOLDER] [--out FOLDER]

Called by scripts/gpu_check.sh; docs/gpu.md says what is measured and how. What decides a target is
measured in turns, so that a clock that changes hits both sides. Steps come in the order of their
weight and what --time-limit does not allow is left out and named; the result is written after every
step. Standard library only: PyTorch runs in worker.py under --python.

Exit codes: 0; 1 a step failed; 2 wrong usage; 77 no GPU.
"""

import argparse
import datetime
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import agreement
import gpu_targets as targets
from processes import (
    HERE,
    ROOT,
    Clock,
    Failure,
    Json,
    Worker,
    benchmark,
    json_lines,
    run,
    say,
    write_json,
)
from turns import Turn, new_record, take_turns

RESULT = "model.json"
NO_GPU = 77
SEES_NO_GPU = "torch sees no GPU"  # as gpu_peers.py says it

ARCH = "deit_base_patch16_224"
LARGE, SMALL = targets.LARGE, [224, 224]
BACKENDS = ["flash", "cudnn", "efficient"]
BATCHES = [1, 2, 4, 8, 16]
SMALL_BATCH = 256
HEDGEHOG = {"tokens": 32768, "batch": 1}


class Run:
    """Everything that one run measures, and the result as it grows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.clock = Clock(arguments.time_limit)
        self.out: Path = arguments.out
        worker = [arguments.python, "-B", str(arguments.worker)]
        self.worker = Worker(worker, self.out / "worker.log", self.clock)
        self.failed = False
        self.rows: list[Json] = []
        self.result: Json = {
            "schema": 2,
            "header": {
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
                "rounds": arguments.rounds,
                "duration": arguments.duration,
            },
            "matrix_rate": [],
            "rows": self.rows,
            "turns": {},
            "agreement": {},
            "remarks": [],
        }

    # What is asked of the programs. Rows are those of `hydrascope benchmark`; `setting` says who.

    def benchmark(self, most: float = 200, **options: object) -> list[Json]:
        """Rows of one `hydrascope benchmark`; what it measured before it failed counts."""
        words: Json = {
            "model": ARCH,
            "precision": "bfloat16",
            "device": self.arguments.device,
            "duration": self.arguments.duration,
        } | {name.replace("_", "-"): value for name, value in options.items()}
        header, rows, why = benchmark(self.arguments.hydrascope, words, self.clock, most)
        self.result["header"].setdefault("hydrascope", header)
        if why:
            asked = " ".join(f"--{name} {value}" for name, value in options.items())
            self.remark(f"hydrascope benchmark {asked}: {why}")
        setting = "hydrascope" if "preset" not in options else f"--preset {options['preset']}"
        rows = [{"who": "hydrascope", "setting": setting} | row for row in rows]
        self.rows += rows
        return rows

    def vit(self, img_size: list[int], batch: int, most: float = 120, **job: object) -> Json:
        """A row of PyTorch's softmax; `backend` and `compile` say how."""
        setting = "timm" if "timm" in self.result["header"].get("versions", {}) else "plain torch"
        setting += f", {job['backend']}" if job.get("backend") else ""
        setting += f", torch.compile {job['compile']}" if job.get("compile") else ", eager"
        work = {"attention": "softmax", "img_size": img_size, "batch": batch}
        row = {"who": "torch", "setting": setting, "precision": "bfloat16", "job": job} | work
        asked = {"do": "measure", "kind": "gpu", "arch": ARCH, "duration": self.arguments.duration}
        try:
            row |= self.worker.ask(most, **asked, **work, **job)
        except Failure as failure:
            row["error"] = str(failure)
        self.rows.append(row)
        return row

    def remark(self, text: str) -> None:
        say(f"  {text}")
        self.result["remarks"].append(text)

    def in_turns(self, name: str, own: str, contenders: dict[str, Callable[[], Json]]) -> None:
        """Records of all of them; without `own` the step has failed."""
        records = {who: new_record() for who in contenders}
        self.result["turns"][name] = records
        turns = [Turn(f"{name}, {who}", records[who], each) for who, each in contenders.items()]
        take_turns(turns, self.arguments.rounds)
        if records[own]["message"]:
            raise Failure(records[own]["message"])

    # The steps.

    def matrix_rate(self) -> None:
        self.result["matrix_rate"].append(self.worker.ask(do="matrix_rate", side=8192))

    def hedgehog_kernel(self) -> Json:
        program = str(self.arguments.kernel_bench)
        command = [program, "--launches", "30", "--filter", "^hedgehog forward.*32768"]
        output, why = run(command, self.clock)
        for line in json_lines(output):
            if line.get("cache") == "cold" and line["kernel"] == "hedgehog forward" and not why:
                return {"ms_p50": line["us_median"] / 1e3}
        raise Failure(why or "kernel_bench printed no row of hedgehog")

    def hedgehog_against_softmax(self) -> None:
        """The kernel of Hedgehog and every SDPA backend, in turns, at 32768 tokens."""
        contenders = {"hedgehog": self.hedgehog_kernel}
        for backend in BACKENDS:
            contenders[backend] = lambda backend=backend: self.worker.ask(
                do="sdpa", backend=backend, **HEDGEHOG
            )
        self.in_turns("hedgehog", "hedgehog", contenders)

    def hydrascope_at_1080p(self, attention: str) -> None:
        batches = ",".join(map(str, BATCHES))
        self.benchmark(attn=attention, img_size="1088x1920", batch_size=batches)

    def softmax_of_torch(self) -> None:
        """Eager at one batch by every backend, then the fastest backend at all batches, then
        compiled at its best batch."""
        trial = [self.vit(LARGE, 4, backend=backend) for backend in BACKENDS]
        best = targets.fastest([row for row in trial if not row.get("error")])
        if best is None:
            raise Failure("; ".join(str(row["error"]) for row in trial))
        for batch in BATCHES:
            if batch != 4:
                self.vit(LARGE, batch, **best["job"])
        best = targets.fastest(targets.good(self.rows, "torch", "softmax", LARGE))
        assert best is not None
        limit = self.arguments.compile_limit
        row = self.vit(LARGE, best["batch"], limit, compile="default", **best["job"])
        if row.get("error"):
            self.remark(f"{row['setting']} at 1088x1920: {row['error']}")

    def turn_of_hydrascope(
        self, attention: str, img_size: str, *batches: int
    ) -> Callable[[], Json]:
        """The fastest of the batches."""

        def measure() -> Json:
            words = ",".join(map(str, dict.fromkeys(batches)))
            rows = self.benchmark(attn=attention, img_size=img_size, batch_size=words)
            best = targets.fastest([row for row in rows if not row.get("error")])
            if best is None:
                raise Failure(rows[-1]["error"])
            return targets.turn(best)

        return measure

    def turn_of_torch(self, img_size: list[int], batch: int, job: Json) -> Callable[[], Json]:
        def measure() -> Json:
            row = self.vit(img_size, batch, **job)
            if row.get("error"):
                raise Failure(row["error"])
            return targets.turn(row)

        return measure

    def models_in_turns(self) -> None:
        """Hydra at its best batch against the fastest softmax of PyTorch and of hydrascope."""
        hydra = targets.fastest(targets.good(self.rows, "hydrascope", "hydra", LARGE))
        own = targets.fastest(targets.good(self.rows, "hydrascope", "softmax", LARGE))
        torch = targets.fastest(targets.good(self.rows, "torch", "softmax", LARGE))
        if hydra is None:
            raise Failure("no row of Hydra to repeat")
        contenders = {"hydra": self.turn_of_hydrascope("hydra", "1088x1920", 1, hydra["batch"])}
        if torch is not None:
            contenders[torch["setting"]] = self.turn_of_torch(LARGE, torch["batch"], torch["job"])
        if own is not None:
            contenders["hydrascope"] = self.turn_of_hydrascope("softmax", "1088x1920", own["batch"])
        self.in_turns("hydra", "hydra", contenders)

    def small_in_turns(self) -> None:
        """224 pixels, batch 256: hydrascope's softmax against PyTorch's, compiled if that works."""
        job: Json = {"compile": "default"}
        first = self.vit(SMALL, SMALL_BATCH, self.arguments.compile_limit, **job)
        if first.get("error"):
            self.remark(f"{first['setting']} at 224: {first['error']}")
            job = {}
        setting = first["setting"] if job else first["setting"].split(", ")[0] + ", eager"
        self.in_turns("small", "hydrascope", {
            "hydrascope": self.turn_of_hydrascope("softmax", "224", SMALL_BATCH),
            setting: self.turn_of_torch(SMALL, SMALL_BATCH, job),
        })  # fmt: skip

    def agreement(self) -> None:
        self.result["agreement"] = agreement.measure(
            self.arguments.hydrascope, self.arguments.images, self.out, self.clock
        )

    def run(self) -> int:
        try:
            self.result["header"] |= self.worker.ask(do="gpu")
        except Failure as failure:
            self.remark(f"PyTorch: {failure}")
            self.write()
            if str(failure) == SEES_NO_GPU:
                return NO_GPU
            self.failed = True  # without PyTorch, hydrascope is measured all the same
        steps: list[tuple[str, float, Callable[[], object]]] = [
            ("the matrix rate", 10, self.matrix_rate),
            ("hedgehog against fused softmax", 20, self.hedgehog_against_softmax),
            ("Hydra at 1088x1920", 15, lambda: self.hydrascope_at_1080p("hydra")),
            ("softmax at 1088x1920", 15, lambda: self.hydrascope_at_1080p("softmax")),
            ("softmax of PyTorch at 1088x1920", 20, self.softmax_of_torch),
            ("models in turns", 20, self.models_in_turns),
            ("224 pixels in turns", 20, self.small_in_turns),
            ("agreement of CPU and GPU", 10, self.agreement),
            ("Hedgehog at 1088x1920", 15, lambda: self.hydrascope_at_1080p("hedgehog")),
            ("the preset 1080p", 15, lambda: self.benchmark(preset="1080p")),
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
        return 1 if self.failed else 0

    def write(self) -> None:
        write_json(self.out / RESULT, self.result)


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
    arguments = parser.parse_args(words)
    if arguments.rounds < 1 or arguments.duration < 0 or arguments.time_limit <= 0:
        parser.error("--rounds must be at least 1, --duration at least 0, --time-limit positive")
    if not arguments.images.is_dir():
        parser.error(f"--images {arguments.images}: no such folder")
    return arguments


def main() -> int:
    arguments = parse(sys.argv[1:])
    arguments.out.mkdir(parents=True, exist_ok=True)
    # `timeout` ends this process only; leaving by an exception ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    measuring = Run(arguments)
    with measuring.worker:
        try:
            return measuring.run()
        finally:
            measuring.write()


if __name__ == "__main__":
    sys.exit(main())
