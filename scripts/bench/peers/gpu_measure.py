"""Measures hydrascope on this machine's GPU beside PyTorch, in one run.

    gpu_measure.py --hydrascope PROGRAM --kernel-bench PROGRAM --images FOLDER --out FOLDER --time-limit SECONDS

scripts/gpu_kit.sh calls it with the Python that has torch; docs/gpu.md says what is measured and
how. What decides a target is measured in turns, so that a clock that changes hits both sides. Steps
come in the order of their worth; what the time does not allow is left out and named. The result,
model.json, is written after every step. PyTorch runs in a process of its own, worker.py.

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
BACKENDS = ["flash", "cudnn", "efficient", "math"]
BATCHES = [1, 2, 4, 8, 16]
LARGE_BATCH, SMALL_BATCH = 8, 256
HEDGEHOG = {"tokens": 32768, "batch": 1}
DURATION = 1.0  # seconds of every measurement
# Peers of other batches, and by torch.compile's longest search, in the order of their worth.
MORE_PEERS: list[tuple[str, list[int], int, str]] = [
    ("hydra", LARGE, LARGE_BATCH, "max-autotune"),
    ("softmax", SMALL, SMALL_BATCH, "max-autotune"),
    *(("softmax", SMALL, batch, "default") for batch in (64, 8, 1)),
    *(("hydra", LARGE, batch, "default") for batch in (4, 1)),
    *(("softmax", SMALL, batch, "max-autotune") for batch in (1, 64, 8)),
    *(("hydra", LARGE, batch, "max-autotune") for batch in (1, 4)),
    *(("softmax", LARGE, batch, "default") for batch in (4, 1)),
]


class Run:
    """Everything that one run measures, and the result as it grows."""

    rounds = 3  # of what is measured in turns
    compile_limit = 100.0  # seconds that one torch.compile may take
    peer_limit = 60.0  # the same of those that decide no target

    def __init__(self, arguments: argparse.Namespace, worker: Path = HERE / "worker.py") -> None:
        self.arguments = arguments
        self.clock = Clock(arguments.time_limit)
        self.out: Path = arguments.out
        command = [sys.executable, "-B", str(worker)]
        self.worker = Worker(command, self.out / "worker.log", self.clock)
        self.failed = False
        self.rows: list[Json] = []
        self.result: Json = {
            "schema": 3,
            "header": {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")},
            "matrix_rate": [],
            "rows": self.rows,
            "turns": {},
            "agreement": {},
            "remarks": [],
        }

    # The questions to the programs. Rows are rows of `hydrascope benchmark`; `setting` says who.

    def hydrascope(self, attention: str, img_size: list[int], *batches: int) -> Json:
        """The fastest of its rows; what it measured before it failed counts."""
        words: Json = {
            "model": ARCH,
            "precision": "bfloat16",
            "device": "cuda",
            "duration": DURATION,
            "attn": attention,
            "img-size": "x".join(map(str, img_size)),
            "batch-size": ",".join(map(str, dict.fromkeys(batches))),
        }
        header, rows, why = benchmark(self.arguments.hydrascope, words, self.clock)
        self.result["header"].setdefault("hydrascope", header)
        if why:
            self.remark(f"hydrascope, {attention}, {words['img-size']}: {why}")
        rows = [{"who": "hydrascope", "setting": "hydrascope"} | row for row in rows]
        self.rows += rows
        best = targets.fastest([row for row in rows if not row.get("error")])
        if best is None:
            raise Failure(rows[-1]["error"])
        return best

    def torch(
        self, attention: str, img_size: list[int], batch: int, most: float | None = None, **job: object
    ) -> Json:
        """A row of timm's model; `backend` and `compile` say how. Its failure is a row, too."""
        compiled = str(job.get("compile", "")).replace("default", "")
        words = [
            f"timm {attention}",
            str(job.get("backend", "")),
            f"torch.compile {compiled}".strip() if job.get("compile") else "eager",
        ]
        row: Json = {
            "who": "torch", "setting": ", ".join(filter(None, words)), "attention": attention,
            "img_size": img_size, "batch": batch, "precision": "bfloat16", "job": job,
        }  # fmt: skip
        self.rows.append(row)
        asked = {"do": "measure", "kind": "gpu", "arch": ARCH, "duration": DURATION}
        work = {"attention": attention, "img_size": img_size, "batch": batch}
        try:
            row |= self.worker.ask(most or self.compile_limit, **asked, **work, **job)
        except Failure as failure:
            row["error"] = str(failure)
            raise
        return row

    def remark(self, text: str) -> None:
        say(f"  {text}")
        self.result["remarks"].append(text)

    def in_turns(self, name: str, own: str, contenders: dict[str, Callable[[], Json]]) -> None:
        """Records of all of them; without `own` the step has failed."""
        records = {who: new_record() for who in contenders}
        self.result["turns"][name] = records
        turns = [Turn(f"{name}, {who}", records[who], each) for who, each in contenders.items()]
        take_turns(turns, self.rounds)
        if records[own]["message"]:
            raise Failure(records[own]["message"])

    # The steps.

    def matrix_rate(self) -> None:
        self.result["matrix_rate"].append(self.worker.ask(do="matrix_rate", side=8192))

    def peers_of_hydra(self) -> None:
        """The same formula of PyTorch, compiled and not, and softmax by every backend; one that
        fails does not end the others."""
        trials: list[tuple[str, Json]] = [("hydra", {"compile": "default"}), ("hydra", {})]
        trials += [("softmax", {"backend": backend}) for backend in BACKENDS]
        for attention, job in trials:
            try:
                self.torch(attention, LARGE, LARGE_BATCH, **job)
            except Failure as failure:
                self.remark(f"{self.rows[-1]['setting']} at 1088x1920: {failure}")
        best = targets.fastest(targets.good(self.rows, "torch", "softmax", LARGE))
        if best is None:
            raise Failure("no backend of softmax runs")
        try:
            self.torch("softmax", LARGE, LARGE_BATCH, compile="default", **best["job"])
        except Failure as failure:
            self.remark(f"{self.rows[-1]['setting']} at 1088x1920: {failure}")

    def models_in_turns(self) -> None:
        """Hydra at its best batch against the fastest of each kind of peer."""
        contenders = {}
        for who, attention in (("hydrascope", "hydra"), ("torch", "hydra"),
                               ("torch", "softmax"), ("hydrascope", "softmax")):  # fmt: skip
            best = targets.fastest(targets.good(self.rows, who, attention, LARGE))
            if best is None:
                continue
            batch, job = best["batch"], best.get("job", {})
            if who == "torch":
                name = best["setting"]
                contenders[name] = self.turn_of_torch(attention, LARGE, batch, job)
            else:
                alone = [1] if attention == "hydra" else []
                contenders[f"{who} {attention}"] = self.turn_of_hydrascope(
                    attention, LARGE, *alone, batch
                )
        self.in_turns("hydra", "hydrascope hydra", contenders)

    def turn_of_hydrascope(
        self, attention: str, img_size: list[int], *batches: int
    ) -> Callable[[], Json]:
        return lambda: targets.turn(self.hydrascope(attention, img_size, *batches))

    def turn_of_torch(
        self, attention: str, img_size: list[int], batch: int, job: Json
    ) -> Callable[[], Json]:
        return lambda: targets.turn(self.torch(attention, img_size, batch, **job))

    def small_in_turns(self) -> None:
        """224 pixels: softmax of both, timm's compiled if that works."""
        job: Json = {"compile": "default"}
        try:
            self.torch("softmax", SMALL, SMALL_BATCH, **job)
        except Failure as failure:
            self.remark(f"{self.rows[-1]['setting']} at 224: {failure}")
            job = {}
        self.in_turns("small", "hydrascope", {
            "hydrascope": self.turn_of_hydrascope("softmax", SMALL, SMALL_BATCH),
            "timm, torch.compile" if job else "timm, eager":
                self.turn_of_torch("softmax", SMALL, SMALL_BATCH, job),
        })  # fmt: skip

    def more_peers(self) -> None:
        """Each has seconds of its own; one that does not fit is named."""
        self.hydrascope("softmax", SMALL, 1, 8, 64)
        for attention, img_size, batch, mode in MORE_PEERS:
            try:
                self.clock.demand(15)
                self.torch(attention, img_size, batch, self.peer_limit, compile=mode)
            except Failure as failure:
                size = "x".join(map(str, img_size))
                self.remark(f"peer {attention} {size}, batch {batch}, {mode}: not run: {failure}")

    def hedgehog_kernel(self) -> Json:
        command = [str(self.arguments.kernel_bench), "--launches", "30"]
        command += ["--filter", "^hedgehog forward.*32768"]
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

    def agreement(self) -> None:
        self.result["agreement"] = agreement.measure(
            self.arguments.hydrascope, self.arguments.images, self.clock
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
            ("Hydra at 1088x1920", 15, lambda: self.hydrascope("hydra", LARGE, *BATCHES)),
            ("softmax at 1088x1920", 15, lambda: self.hydrascope("softmax", LARGE, *BATCHES)),
            ("peers at 1088x1920", 20, self.peers_of_hydra),
            ("models in turns", 20, self.models_in_turns),
            ("224 pixels in turns", 20, self.small_in_turns),
            ("agreement of CPU and GPU", 10, self.agreement),
            ("hedgehog against softmax", 20, self.hedgehog_against_softmax),
            ("peers of other batches and modes", 20, self.more_peers),
            ("Hedgehog at 1088x1920", 15, lambda: self.hydrascope("hedgehog", LARGE, *BATCHES)),
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
    parser.add_argument("--hydrascope", type=Path, required=True)
    parser.add_argument("--kernel-bench", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="labelled pictures")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time-limit", type=float, required=True, help="seconds of the whole run")
    return parser.parse_args(words)


def main() -> int:
    arguments = parse(sys.argv[1:])
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
