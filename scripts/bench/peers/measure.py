"""Measures hydrascope and its peers on the CPU in turns, in one run, on the same work.

    scripts/bench/peers/run.sh [OPTIONS]      makes the peers' virtual environment, then calls this

Work of one model, size and batch makes a group (softmax, Hydra, Hedgehog). A round goes once
through every attention of the group and every contender; each turn is a fresh process, so nobody
idles, spins or holds memory beside another, and the next round begins with the next contender.
What a group needs (weights, exported models) is made before its first round. README.md says what
the tables mean. Standard library only: the peers run in worker.py under --python.
"""

import argparse
import datetime
import math
import os
import platform
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import table
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

NAMES = ("peers.md", "peers.json")


@dataclass(frozen=True)
class Contender:
    title: str
    kind: str  # of cpu_peers.py, or table.OWN
    precision: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{table.SHORT_PRECISION[self.precision]}"

    def as_json(self) -> Json:
        return {"name": self.name, **vars(self)}


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
ARCHITECTURES = {"DeiT-Ti": "deit_tiny_patch16_224", "DeiT-B": "deit_base_patch16_224"}


@dataclass(frozen=True)
class Item:
    """One row of the table: a forward pass, tensor in, logits out, or a step of training."""

    model: str  # of ARCHITECTURES, or timm's name
    img_size: tuple[int, int]  # height, width
    batch: int
    attention: str
    warmup: int | None = None  # passes before; None: until the times settle
    iters: int | None = None  # passes that are measured; None: at least 5, and for --duration
    stage: str = "model"  # of `hydrascope benchmark --timed`

    @property
    def arch(self) -> str:
        return ARCHITECTURES.get(self.model, self.model)

    @property
    def name(self) -> str:
        height, width = self.img_size
        training = " train_step" if self.stage != "model" else ""
        return f"{self.model} {height}x{width} b{self.batch} {self.attention}{training}"

    @property
    def group(self) -> tuple[object, ...]:
        return self.model, self.img_size, self.batch, self.stage

    @property
    def job(self) -> Json:
        return {key: value for key, value in vars(self).items() if key != "model"} | {
            "arch": self.arch
        }

    def measured_by(self, contender: Contender) -> bool:
        if self.stage == "train_step":
            plain = contender.kind == "timm" and self.attention == "softmax"
            return plain or (contender.kind == table.OWN and contender.precision != "int8")
        return contender.kind == table.OWN or self.attention in ("softmax", "hydra")


def item_named(name: str) -> Item:
    """`vit_small_patch16_224 384x384 b4 softmax`, as --list prints names."""
    found = re.fullmatch(r"(\S+) (\d+)x(\d+) b(\d+) (\S+)( train_step)?", name)
    if found is None:
        raise argparse.ArgumentTypeError(f"no name of work, as --list prints them: {name}")
    model, height, width, batch, attention, training = found.groups()
    stage = "train_step" if training else "model"
    return Item(model, (int(height), int(width)), int(batch), attention, stage=stage)


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
    Item("DeiT-Ti", SMALL, 32, "softmax", warmup=2, iters=8, stage="train_step"),
    Item("DeiT-Ti", SMALL, 32, "hydra", warmup=2, iters=8, stage="train_step"),
]
QUICK_ITEMS = r"DeiT-Ti 224x224 b\d+ softmax$"


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


def turn_of(row: Json, item: Item, precision: str) -> Json:
    """A turn from a row of `hydrascope benchmark`."""
    wanted = (precision, list(item.img_size), item.batch, item.attention)
    ran = (row["precision"], row["img_size"], row["batch"], row["attention"])
    if ran != wanted:
        raise Failure(f"ran {ran} instead of {wanted}")
    kept = ("ms_p50", "ms_mean", "iterations", "warmup", "peak_memory_bytes", "kernels")
    return {key: row[key] for key in kept}


class Comparison:
    """Everything that one run measures, and the result as it grows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.out: Path = arguments.out
        self.clock = Clock(math.inf)
        self.items = [
            each for each in arguments.work or ITEMS if re.search(arguments.only, each.name)
        ]
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

    def ask(self, action: str, kind: str, **job: object) -> Json:
        """One answer of a process of its own."""
        command = [self.arguments.python, "-B", str(HERE / "worker.py")]
        with Worker(command, self.out / "worker.log", self.clock) as worker:
            return worker.ask(self.arguments.timeout, do=action, kind=kind, **job)

    def find_contenders(self) -> None:
        versions = self.result["header"]["versions"]
        kinds = {each.kind for each in self.contenders}
        for kind in filter(kinds.__contains__, PEER_KINDS):
            try:
                versions.update(self.ask("versions", kind))
            except Failure as failure:
                self.missing[kind] = f"not installed: {failure}"
        if table.OWN in kinds:
            command = [str(self.arguments.hydrascope), "doctor", "--format", "jsonl"]
            try:
                output, why = run(command, self.clock)
                if why:
                    raise Failure(why)
                about = json_lines(output)[0]
                about.pop("assets", None)  # a path of this machine
                versions[table.OWN] = f"{about['version']} ({about['commit']})"
                self.result["header"]["hydrascope"] = about
            except Failure as failure:
                self.missing[table.OWN] = str(failure)
        for kind, why in self.missing.items():
            say(f"{kind}: {why}")

    def prepare(self, item: Item, folder: Path) -> dict[str, str]:
        """Makes what the peers need for an item; the kinds that cannot, and why."""
        broken = dict(self.missing)
        wanted = {each.kind for each in self.contenders if item.measured_by(each)} - {table.OWN}
        if not wanted or item.stage != "model":
            return broken
        folder.mkdir()
        for kind in PEER_KINDS:  # timm first: the others are made of its weights
            if kind in broken or (kind != "timm" and kind not in wanted):
                continue
            say(f"{item.name}: preparing {kind}")
            try:
                self.ask("prepare", kind, folder=str(folder), **item.job)
            except Failure as failure:
                broken[kind] = f"preparing failed: {failure}"
                say(f"  {broken[kind]}")
        return broken

    def measure(self, contender: Contender, item: Item, folder: Path) -> Json:
        """One turn."""
        arguments = self.arguments
        precision = contender.precision
        settings = {"threads": arguments.threads, "duration": arguments.duration}
        if contender.kind != table.OWN:
            job = item.job | settings | {"folder": str(folder), "precision": precision}
            return self.ask("measure", contender.kind, **job)
        height, width = item.img_size
        options = settings | {
            "model": item.arch, "attn": item.attention, "img-size": f"{height}x{width}",
            "batch-size": item.batch, "precision": precision, "device": "cpu",
            "stage": item.stage, "warmup": item.warmup, "iters": item.iters,
        }  # fmt: skip
        _, rows, why = benchmark(arguments.hydrascope, options, self.clock, arguments.timeout)
        if why:
            raise Failure(why)
        return turn_of(rows[0], item, precision)

    def turns_of(self, item: Item, folder: Path) -> list[Turn]:
        """Puts the item into the result, too."""
        broken = self.prepare(item, folder)
        records: Json = {}
        turns = []
        for each in self.contenders:
            if item.measured_by(each):
                record = records[each.name] = new_record(broken.get(each.kind, ""))
                measure = lambda each=each: self.measure(each, item, folder)  # noqa: E731
                turns.append(Turn(f"{item.name}, {each.name}", record, measure))
        about = {key: item.job[key] for key in ("arch", "img_size", "batch", "attention")}
        if item.stage != "model":
            about["stage"] = item.stage
        self.result["items"].append(
            {"name": item.name, "model": item.model, **about, "results": records}
        )
        return turns

    def run(self) -> None:
        self.find_contenders()
        groups: dict[tuple[object, ...], list[Item]] = {}
        for item in self.items:
            groups.setdefault(item.group, []).append(item)
        for items in groups.values():
            # Below --out, because a temporary folder may be memory.
            with tempfile.TemporaryDirectory(dir=self.out, prefix="models-") as folder:
                turns = [
                    turn
                    for index, item in enumerate(items)
                    for turn in self.turns_of(item, Path(folder) / str(index))
                ]
                take_turns(turns, self.arguments.rounds)
            self.write()

    def write(self) -> None:
        table.summarise(self.result)
        (self.out / NAMES[0]).write_text(table.markdown(self.result), encoding="utf-8")
        write_json(self.out / NAMES[1], self.result)


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
        "--work",
        nargs="+",
        type=item_named,
        metavar="NAME",
        help="other work than --list names, any model of timm",
    )
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
    arguments = parser.parse_args(words)
    quick: bool = arguments.quick
    if arguments.rounds is None:
        arguments.rounds = 2 if quick else 5
    if arguments.duration is None:
        arguments.duration = 0.3 if quick else 2.0
    if arguments.only is None:
        arguments.only = QUICK_ITEMS if quick and not arguments.work else ""
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
    comparison = Comparison(arguments)
    if arguments.list:
        print("work:", *(each.name for each in comparison.items), sep="\n  ")
        print("contenders:", *(each.name for each in comparison.contenders), sep="\n  ")
        return 0
    if not comparison.items or not comparison.contenders:
        say("error: nothing matches --only and --contenders\nhint: --list prints the names")
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    # The processes that are started inherit it.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(arguments.threads)
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
