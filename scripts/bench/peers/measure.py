"""Measures hydrascope and its peers on the CPU in turns, in one run, on the same work.

    scripts/peers.sh [PRESET] [OPTIONS]      makes the peers' virtual environment, then calls this

Work of one model, size and batch makes a group (softmax, Hydra, Hedgehog). A round goes once
through every group, and in it through every attention and every contender; each turn is a fresh
process, so nobody idles, spins or holds memory beside another, and the next round begins each group
with the next contender. Weights and exported models are made before the first round. README.md says
what the table means. Standard library only: the peers run in worker.py under --python.
"""

import argparse
import datetime
import json
import math
import os
import platform
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cpu_peers
import figure
import noise
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
from turns import Turn, new_record, take_round

PAGE, DATA, FIGURE = NAMES = ("peers.md", "peers.json", "peers.svg")


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
    Contender("torch.compile", "torch-compile", "float32"),
    Contender("torch.compile", "torch-compile", "bfloat16"),
    Contender("ONNX Runtime", "onnxruntime", "float32"),
    Contender("ONNX Runtime", "onnxruntime-dynamic", "int8"),
    Contender("OpenVINO", "openvino", "float32"),
    Contender("OpenVINO", "openvino", "bfloat16"),
    Contender("OpenVINO", "openvino-nncf", "int8"),
    Contender("hydrascope", table.OWN, "float32"),
    Contender("hydrascope", table.OWN, "bfloat16"),
    Contender("hydrascope", table.OWN, "int8"),
]
PEER_KINDS = list(dict.fromkeys(each.kind for each in CONTENDERS if each.kind != table.OWN))
ARCHITECTURES = {"DeiT-Ti": "deit_tiny_patch16_224", "DeiT-B": "deit_base_patch16_224"}
# Attention whose windows and overview are settings: the bundled model says them. No peer has it.
BUNDLED = {("DeiT-Ti", "window"): "deit_tiny_patch16_224.window"}


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
    def own_options(self) -> Json:
        """The model, as `hydrascope benchmark` is asked for it: a bundled one has its attention."""
        bundled = BUNDLED.get((self.model, self.attention))
        return {"model": bundled} if bundled else {"model": self.arch, "attn": self.attention}

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


SMALL, MIDDLE, LARGE = (224, 224), (512, 512), (1088, 1920)
ITEMS = [
    Item("DeiT-Ti", SMALL, 1, "softmax"),
    Item("DeiT-Ti", SMALL, 32, "softmax"),
    Item("DeiT-B", SMALL, 1, "softmax"),
    Item("DeiT-B", SMALL, 8, "softmax"),
    Item("DeiT-Ti", MIDDLE, 1, "softmax"),
    Item("DeiT-B", MIDDLE, 1, "softmax"),
    Item("DeiT-Ti", LARGE, 1, "softmax", warmup=1, iters=3),
    Item("DeiT-Ti", LARGE, 1, "hydra"),
    Item("DeiT-Ti", LARGE, 1, "hedgehog"),
    Item("DeiT-Ti", LARGE, 1, "window"),
    Item("DeiT-B", LARGE, 1, "softmax", warmup=1, iters=2),
    Item("DeiT-B", LARGE, 1, "hydra", warmup=1, iters=3),
    Item("DeiT-B", LARGE, 1, "hedgehog", warmup=1, iters=3),
    Item("DeiT-Ti", SMALL, 32, "softmax", warmup=2, iters=8, stage="train_step"),
    Item("DeiT-Ti", SMALL, 32, "hydra", warmup=2, iters=8, stage="train_step"),
]


@dataclass(frozen=True)
class Preset:
    items: str  # regular expression of their names
    rounds: int
    duration: float  # seconds that a turn measures
    minutes: float  # no round begins that would not end within them


PRESETS = {
    "quick": Preset(r"DeiT-Ti 224x224 b\d+ softmax$", 2, 0.3, 15),
    "standard": Preset(r"DeiT-Ti (?!.*train_step)", 3, 2.0, 60),
    "all": Preset("", 5, 2.0, math.inf),
}


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
    kept = ("ms_p50", "ms_mean", "iterations", "warmup", "peak_memory_bytes", "kernels", "pct_of_peak")
    return {key: row[key] for key in kept if key in row}


class Comparison:
    """Everything that one run measures, and the result as it grows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.out: Path = arguments.out
        self.clock = Clock(arguments.minutes * 60)
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
                "rounds": 0,
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
        for kind in cpu_peers.PREPARE:  # timm first: the others are made of its weights
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
        """One turn, and what else the machine did meanwhile."""
        before = noise.moment()
        turn = self.measure_alone(contender, item, folder)
        return turn | noise.between(before, noise.moment())

    def measure_alone(self, contender: Contender, item: Item, folder: Path) -> Json:
        arguments = self.arguments
        precision = contender.precision
        settings = {"threads": arguments.threads, "duration": arguments.duration}
        if contender.kind != table.OWN:
            job = item.job | settings | {"folder": str(folder), "precision": precision}
            return self.ask("measure", contender.kind, **job)
        height, width = item.img_size
        options = settings | {
            **item.own_options, "img-size": f"{height}x{width}", "batch-size": item.batch,
            "precision": precision, "device": "cpu", "timed": item.stage, "warmup": item.warmup,
            "iters": item.iters,
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
        # Below --out, because a temporary folder may be memory.
        with tempfile.TemporaryDirectory(dir=self.out, prefix="models-") as folder:
            taken = [
                [
                    turn
                    for index, item in enumerate(items)
                    for turn in self.turns_of(item, Path(folder) / f"{number}-{index}")
                ]
                for number, items in enumerate(groups.values())
            ]
            self.take_rounds(taken)

    def take_rounds(self, groups: list[list[Turn]]) -> None:
        """The first round in any case, further ones while the time lasts."""
        rounds = self.arguments.rounds
        longest = 0.0
        for number in range(rounds):
            if number and self.clock.left() < 1.1 * longest:
                say(f"the time is over: {number} of {rounds} rounds were measured (`--minutes`)")
                return
            begin = time.monotonic()
            self.result["header"]["rounds"] = number + 1
            for turns in groups:
                take_round(turns, number, rounds)
            longest = max(longest, time.monotonic() - begin)
            self.write()

    def write(self) -> None:
        table.summarise(self.result)
        write_json(self.out / DATA, self.result)
        render([self.result], self.out, FIGURE)


def render(results: list[Json], folder: Path, link: str) -> None:
    """The page of results, and the newest one's figure."""
    for result in results:
        table.summarise(result)
    newest = max(results, key=lambda result: str(result["header"]["date"]))
    (folder / PAGE).write_text(table.markdown(results, link), encoding="utf-8")
    (folder / FIGURE).write_text(figure.figure(newest), encoding="utf-8")


def merge(results: list[Json]) -> Json:
    """One result of several runs on one machine. Work that several have measured is the newest's, with all its contenders,
    because ratios are taken within a round; its `run` says which one. Throws Failure where runs cannot be compared."""
    merged, *newer = sorted(results, key=lambda result: str(result["header"]["date"]))
    base = merged["header"]
    items = {item["name"]: item for item in merged["items"]}
    contenders = {each["name"]: each for each in merged["contenders"]}
    for result in newer:
        header = result["header"]
        for key in ("processor", "instruction_sets", "processors", "threads", "duration"):
            if header[key] != base[key]:
                raise Failure(f"runs with {key} {base[key]} and {header[key]} cannot be merged")
        run_of_item = {key: header[key] for key in ("date", "rounds", "versions")}
        contenders = {each["name"]: each for each in result["contenders"]} | contenders
        for item in result["items"]:
            before = items.get(item["name"])
            left = sorted(set(before["results"] if before else ()) - set(item["results"]))
            if left:
                raise Failure(f"{item['name']}: the newer run lacks {', '.join(left)}")
            items[item["name"]] = {"run": run_of_item} | item
    order = [each.name for each in CONTENDERS]
    merged["items"] = list(items.values())
    merged["contenders"] = sorted(contenders.values(), key=lambda each: order.index(each["name"]))
    return merged


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "preset",
        nargs="?",
        choices=PRESETS,
        metavar="PRESET",
        help="standard: DeiT-Ti at 224, 512 and 1088x1920, 3 rounds or an hour; quick: a trial at 224, 2 short "
        "rounds; all: everything, 5 rounds (default: standard, with --only or --work all)",
    )
    parser.add_argument("--threads", type=int, default=2, help="of every contender (default: 2)")
    parser.add_argument("--rounds", type=int, help="turns of every contender (default: the preset's)")
    parser.add_argument(
        "--duration", type=float, help="seconds that a turn measures, slow work aside (default: the preset's)"
    )
    parser.add_argument(
        "--minutes", type=float, help="no round begins that would not end within them (default: the preset's)"
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
    parser.add_argument(
        "--render", nargs="+", type=Path, metavar="FILE", help=f"only write page and figure of results ({DATA})"
    )
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="FILE",
        help="join results of one machine, work that a newer one has takes the older's place; nothing is measured",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=ROOT / "out" / "peers")
    parser.add_argument(
        "--hydrascope", type=Path, metavar="PATH", default=ROOT / "build/release/hydrascope"
    )
    parser.add_argument(
        "--python", metavar="PATH", default=sys.executable, help="interpreter that has the peers"
    )
    parser.add_argument("--timeout", type=float, default=900, help="seconds, of every process")
    arguments = parser.parse_args(words)
    whole = arguments.only is not None or arguments.work
    preset = PRESETS[arguments.preset or ("all" if whole else "standard")]
    for name in ("rounds", "duration", "minutes"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, getattr(preset, name))
    if arguments.only is None:
        arguments.only = "" if arguments.work else preset.items
    if min(arguments.rounds, arguments.threads) < 1 or min(arguments.duration, arguments.minutes) < 0:
        parser.error("--rounds and --threads must be at least 1, --duration and --minutes at least 0")
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
    files = arguments.render or arguments.merge
    if files:
        results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        if arguments.merge:
            try:
                results = [merge(results)]
            except Failure as failure:
                say(f"error: {failure}")
                return 2
        render(results, arguments.out, FIGURE)
        if arguments.merge:
            write_json(arguments.out / DATA, results[0])
        return 0
    # The processes that are started inherit it.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(arguments.threads)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was measured is kept then, too
    try:
        comparison.run()
    except KeyboardInterrupt:
        comparison.result["header"]["interrupted"] = True
        comparison.write()
        say(f"interrupted; what was measured is in {arguments.out}")
        return 130
    sys.stdout.write((arguments.out / PAGE).read_text(encoding="utf-8"))
    say(f"wrote {' and '.join(str(arguments.out / name) for name in NAMES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
