"""Measures hydrascope and its peers in turns, in one run, on the same work.

    tests/bench/peers/run.sh [OPTIONS]      makes the peers' virtual environment, then calls this

Work of one model, size and batch makes a group (softmax, Hydra, Hedgehog). A round goes once
through every attention of the group and every contender; each turn is a fresh process, so nobody
idles, spins or holds memory beside another, and the next round begins with the next contender.
What a group needs (weights, exported models) is made before its first round. README.md says what
the tables mean. Standard library only: the peers run in worker.py under --python.
"""

import argparse
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NAMES = ("peers.md", "peers.json")

Json = dict[str, Any]


@dataclass(frozen=True)
class Contender:
    title: str
    kind: str  # of worker.py, or table.OWN
    precision: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{table.SHORT_PRECISION[self.precision]}"

    def as_json(self) -> Json:
        return {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "precision": self.precision,
        }


CONTENDERS = [
    Contender("timm", "timm", "float32"),
    Contender("timm", "timm", "bfloat16"),
    Contender("ONNX Runtime", "onnxruntime", "float32"),
    Contender("OpenVINO", "openvino", "float32"),
    Contender("OpenVINO", "openvino", "bfloat16"),
    Contender("hydrascope", table.OWN, "float32"),
    Contender("hydrascope", table.OWN, "bfloat16"),
    Contender("hydrascope", table.OWN, "int8"),
]
PEER_KINDS = list(dict.fromkeys(each.kind for each in CONTENDERS if each.kind != table.OWN))


@dataclass(frozen=True)
class Item:
    """One row of the table: a forward pass of one batch, tensor in, logits out."""

    model: str
    img_size: tuple[int, int]  # height, width
    batch: int
    attention: str
    warmup: int | None = None  # passes before; None: until the times settle
    iters: int | None = None  # passes that are measured; None: at least 5, and for --duration

    @property
    def arch(self) -> str:
        size = {"DeiT-Ti": "tiny", "DeiT-B": "base"}[self.model]
        return f"deit_{size}_patch16_224"

    @property
    def name(self) -> str:
        height, width = self.img_size
        return f"{self.model} {height}x{width} b{self.batch} {self.attention}"

    def measured_by(self, contender: Contender) -> bool:
        return contender.kind == table.OWN or self.attention != "hedgehog"


SMALL, LARGE = (224, 224), (1088, 1920)
ITEMS = [
    Item("DeiT-Ti", SMALL, 1, "softmax"),
    Item("DeiT-Ti", SMALL, 32, "softmax"),
    Item("DeiT-B", SMALL, 1, "softmax"),
    Item("DeiT-B", SMALL, 8, "softmax"),
    Item("DeiT-Ti", LARGE, 1, "softmax", warmup=1, iters=3),
    Item("DeiT-Ti", LARGE, 1, "hydra"),
    Item("DeiT-Ti", LARGE, 1, "hedgehog"),
    Item("DeiT-B", LARGE, 1, "softmax", warmup=1, iters=2),
    Item("DeiT-B", LARGE, 1, "hydra", warmup=1, iters=3),
    Item("DeiT-B", LARGE, 1, "hedgehog", warmup=1, iters=3),
]
QUICK_ITEMS = r"DeiT-Ti 224x224"


class Failure(Exception):
    """Why a contender has no figure; one line."""


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no message"])[-1].removeprefix("error: ")[:300]


class Runner:
    """Starts contenders' processes, one at a time."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.python: str = arguments.python
        self.hydrascope: Path = arguments.hydrascope
        self.threads: int = arguments.threads
        self.duration: float = arguments.duration
        self.timeout: float = arguments.timeout

    def run(self, command: list[str]) -> Json:
        """The JSON object that a process prints last."""
        threads = str(self.threads)
        environment = os.environ | {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"took longer than {self.timeout:g} s") from None
        except OSError as error:
            raise Failure(f"cannot be started: {error.strerror}") from None
        if done.returncode < 0:
            raise Failure(f"killed by {signal.Signals(-done.returncode).name}")
        if done.returncode != 0:
            raise Failure(last_line(done.stderr))
        begin = done.stdout.find("{")
        try:
            result: Json = json.loads(done.stdout[max(begin, 0) :])
        except json.JSONDecodeError:
            raise Failure("printed no JSON object") from None
        return result

    def job(self, item: Item, precision: str) -> str:
        return json.dumps(
            {
                "arch": item.arch,
                "img_size": item.img_size,
                "batch": item.batch,
                "attention": item.attention,
                "precision": precision,
                "threads": self.threads,
                "warmup": item.warmup,
                "iters": item.iters,
                "duration": self.duration,
            }
        )

    def worker(self, action: str, kind: str, *words: str) -> Json:
        return self.run([self.python, str(HERE / "worker.py"), action, kind, *words])

    def measure_hydrascope(self, item: Item, precision: str) -> Json:
        height, width = item.img_size
        options: dict[str, object] = {
            "--model": item.arch,
            "--attn": item.attention,
            "--img-size": f"{height}x{width}",
            "--batch-size": item.batch,
            "--precision": precision,
            "--threads": self.threads,
            "--device": "cpu",
            "--duration": self.duration,
            "--format": "json",
        }
        if item.warmup is not None:
            options["--warmup"] = item.warmup
        if item.iters is not None:
            options["--iters"] = item.iters
        words = [str(word) for pair in options.items() for word in pair]
        return hydrascope_turn(
            self.run([str(self.hydrascope), "benchmark", "-q", *words]), item, precision
        )

    def measure(self, contender: Contender, item: Item, folder: Path) -> Json:
        if contender.kind == table.OWN:
            return self.measure_hydrascope(item, contender.precision)
        job = self.job(item, contender.precision)
        return self.worker("measure", contender.kind, str(folder), job)


def hydrascope_turn(output: Json, item: Item, precision: str) -> Json:
    """A turn from what `hydrascope benchmark --format json` prints."""
    row = output["rows"][0]
    wanted = (precision, list(item.img_size), item.batch, item.attention)
    ran = (row["precision"], row["img_size"], row["batch"], row["attention"])
    if ran != wanted:
        raise Failure(f"ran {ran} instead of {wanted}")
    kept = ("ms_p50", "ms_mean", "iterations", "warmup", "peak_memory_bytes", "kernels")
    return {key: row[key] for key in kept}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def processor() -> tuple[str, str]:
    """Its name and the instruction sets that matter here."""
    name, flags = platform.processor() or platform.machine(), set[str]()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() == "flags":
                flags = set(value.split())
    except OSError:
        pass
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    return name, " ".join(flag for flag in known if flag in flags)


def group_of(item: Item) -> tuple[object, ...]:
    return item.model, item.img_size, item.batch


class Comparison:
    """Everything that one run measures, and the result as it grows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.runner = Runner(arguments)
        self.rounds: int = arguments.rounds
        self.out: Path = arguments.out
        self.items = [each for each in ITEMS if re.search(arguments.only, each.name)]
        self.contenders = [
            each for each in CONTENDERS if re.search(arguments.contenders, each.name)
        ]
        self.missing: dict[str, str] = {}  # kinds that are not there, and why
        name, instruction_sets = processor()
        self.result: Json = {
            "schema": 1,
            "header": {
                "processor": name,
                "instruction_sets": instruction_sets,
                "processors": len(os.sched_getaffinity(0)),
                "memory_gb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9,
                "threads": arguments.threads,
                "rounds": arguments.rounds,
                "duration": arguments.duration,
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
                "load_at_start": os.getloadavg()[0],
                "versions": {},
            },
            "contenders": [each.as_json() for each in self.contenders],
            "items": [],
        }

    def find_contenders(self) -> None:
        versions = self.result["header"]["versions"]
        kinds = {each.kind for each in self.contenders}
        for kind in PEER_KINDS:
            if kind not in kinds:
                continue
            try:
                versions.update(self.runner.worker("versions", kind))
            except Failure as failure:
                self.missing[kind] = f"not installed: {failure}"
                say(f"{kind}: {self.missing[kind]}")
        if table.OWN in kinds:
            try:
                program = str(self.runner.hydrascope)
                about = self.runner.run([program, "doctor", "--format", "json"])
                about.pop("assets", None)  # a path of this machine
                versions[table.OWN] = f"{about['version']} ({about['commit']})"
                self.result["header"]["hydrascope"] = about
            except Failure as failure:
                self.missing[table.OWN] = f"{program}: {failure}"
                say(f"{table.OWN}: {self.missing[table.OWN]}")

    def prepare(self, item: Item, folder: Path) -> dict[str, str]:
        """Makes what the peers need for an item; the kinds that cannot, and why."""
        broken = dict(self.missing)
        wanted = {each.kind for each in self.contenders if item.measured_by(each)} - {table.OWN}
        if not wanted:
            return broken
        folder.mkdir()
        job = self.runner.job(item, "float32")
        for kind in PEER_KINDS:  # timm first: the others are made of its weights
            if kind in broken or (kind != "timm" and kind not in wanted):
                continue
            say(f"{item.name}: preparing {kind}")
            try:
                self.runner.worker("prepare", kind, str(folder), job)
            except Failure as failure:
                broken[kind] = f"preparing failed: {failure}"
                say(f"  {broken[kind]}")
        return broken

    def run_group(self, items: list[Item], folder: Path) -> None:
        turns = []
        for index, item in enumerate(items):
            item_folder = folder / str(index)
            broken = self.prepare(item, item_folder)
            results: Json = {}
            for each in self.contenders:
                if item.measured_by(each):
                    results[each.name] = {"rounds": [], "message": broken.get(each.kind, "")}
            self.result["items"].append(
                {
                    "name": item.name,
                    "model": item.model,
                    "arch": item.arch,
                    "img_size": list(item.img_size),
                    "batch": item.batch,
                    "attention": item.attention,
                    "results": results,
                }
            )
            turns += [
                (item, each, item_folder, results[each.name])
                for each in self.contenders
                if each.name in results
            ]
        for number in range(self.rounds):
            first = number % len(turns)
            for item, contender, item_folder, own in turns[first:] + turns[:first]:
                if own["message"]:
                    own["rounds"].append(None)
                    continue
                try:
                    own["rounds"].append(self.runner.measure(contender, item, item_folder))
                    said = f"{own['rounds'][-1]['ms_p50']:.2f} ms"
                except Failure as failure:
                    own["rounds"].append(None)
                    own["message"] = said = str(failure)
                say(f"{item.name}, round {number + 1} of {self.rounds}, {contender.name}: {said}")

    def run(self) -> None:
        self.find_contenders()
        groups: dict[tuple[object, ...], list[Item]] = {}
        for item in self.items:
            groups.setdefault(group_of(item), []).append(item)
        for items in groups.values():
            # Below --out, because a temporary folder may be memory.
            with tempfile.TemporaryDirectory(dir=self.out, prefix="models-") as folder:
                self.run_group(items, Path(folder))
            self.write()

    def write(self) -> None:
        table.summarise(self.result)
        markdown, raw = (self.out / name for name in NAMES)
        markdown.write_text(table.markdown(self.result), encoding="utf-8")
        raw.write_text(json.dumps(self.result, indent=1) + "\n", encoding="utf-8")


def self_test() -> int:
    sys.path.insert(0, str(HERE))
    tests = unittest.defaultTestLoader.loadTestsFromNames(["table_test", "measure_test"])
    return 0 if unittest.TextTestRunner().run(tests).wasSuccessful() else 1


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2, help="of every contender (default: 2)")
    parser.add_argument("--rounds", type=int, help="turns of every contender (default: 5)")
    parser.add_argument(
        "--duration", type=float, help="seconds that a turn measures, slow work aside (default: 2)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="DeiT-Ti at 224 pixels, 2 rounds of 0.3 s: a trial"
    )
    parser.add_argument("--only", metavar="REGEX", help="work whose name matches (see --list)")
    parser.add_argument(
        "--contenders", metavar="REGEX", default="", help="those whose names match (see --list)"
    )
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=ROOT / "out" / "peers")
    parser.add_argument(
        "--hydrascope", type=Path, metavar="PATH", default=ROOT / "build/release/hydrascope"
    )
    parser.add_argument(
        "--python", metavar="PATH", default=sys.executable, help="interpreter that has the peers"
    )
    parser.add_argument("--timeout", type=float, default=900, help="seconds, of every process")
    parser.add_argument("--self-test", action="store_true", help="run the unit tests and stop")
    arguments = parser.parse_args(words)
    quick: bool = arguments.quick
    if arguments.rounds is None:
        arguments.rounds = 2 if quick else 5
    if arguments.duration is None:
        arguments.duration = 0.3 if quick else 2.0
    if arguments.only is None:
        arguments.only = QUICK_ITEMS if quick else ""
    if min(arguments.rounds, arguments.threads) < 1 or arguments.duration < 0:
        parser.error("--rounds and --threads must be at least 1, --duration at least 0")
    for option in ("only", "contenders"):
        try:
            re.compile(getattr(arguments, option))
        except re.error as error:
            parser.error(f"--{option}: {error}")
    return arguments


def main() -> int:
    arguments = parse(sys.argv[1:])
    if arguments.self_test:
        return self_test()
    comparison = Comparison(arguments)
    if arguments.list:
        print("work:", *(each.name for each in comparison.items), sep="\n  ")
        print("contenders:", *(each.name for each in comparison.contenders), sep="\n  ")
        return 0
    if not comparison.items or not comparison.contenders:
        say("error: nothing matches --only and --contenders\nhint: --list prints the names")
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        comparison.run()
    except KeyboardInterrupt:
        comparison.result["header"]["interrupted"] = True
        comparison.write()
        say(f"interrupted; what was measured is in {arguments.out}")
        return 130
    sys.stdout.write((arguments.out / NAMES[0]).read_text(encoding="utf-8"))
    say(f"wrote {' and '.join(str(arguments.out / name) for name in NAMES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
