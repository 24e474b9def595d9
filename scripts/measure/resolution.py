"""Accuracy at resolution: docs/measurements/resolution.json, the tables of docs/notes/resolution.md, docs/figures/resolution.svg.

    python scripts/measure/resolution.py [--photographs FOLDER] [--scenes FOLDER] [--soft FOLDER] [--enlarged FOLDER] [--natural FOLDER]
                                         [--sets L1 L2 L2soft L3 L4] [--models [TITLE=]NAME|FILE ...]
                                         [--views whole native tiles pyramid look] [--parts PART ...] [--limit N] [--again] [--times N]

L1: labelled photographs (a folder with images.csv), enlarged by the program itself to every size of SIZES, and, with --enlarged, as
files of 1088x1920 (scripts/make/make_scenes.py --sizes fill). L2: scenes of scripts/make/make_scenes.py, L2soft: its scenes with
--soft. L3: the bundled photographs. L4: natural pictures enlarged by make_scenes.py --natural; right is a class of any labelled object.
docs/notes/resolution.md says more. L1 and L2 run `hydrascope evaluate`, L3, L4 and looks `hydrascope classify`, one process a row, one
picture at a time, in bfloat16.

Every row is kept as soon as it is measured. One that is there with the same checkpoint (by SHA-256), the same labels and as many
pictures is not measured again unless --again says so; --limit takes so many pictures per row, evenly spread, --parts some of the
sizes (224 to 1088x1920 in L1, 150 299 600 in L2). --times N measures time and memory of known rows anew, on N pictures each: for a
quiet machine after answers that were counted on a busy one. `--docs` keeps a quick look away from docs/. `--sets` without a name only
writes page and figure anew. Nothing else should run on the machine meanwhile. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from program import PROGRAM, ROOT, Failure, Json, Run, run, run_json, table

FAMILY = "deit_tiny_patch16_224"
MODELS = ["softmax", "window", "hydra_last2", "hedgehog"]
SETS = ["L1", "L2", "L2soft", "L3", "L4"]
SIZES = ["224", "384", "512", "768", "1088", "1088x1920"]
AS_FILES = "files of 1088x1920"  # the part of L1 that --enlarged measures
VIEWS = {
    "whole": ["--img-size", "224"],
    "native": ["--native"],
    "tiles": ["--views", "tiles"],
    "pyramid": ["--views", "pyramid"],
    "look": ["--views", "look"],
}
PRECISION, TOP = "bfloat16", 5
# The subjects of the bundled photographs, by the names of the classes. ImageNet has none for an amphitheatre.
SHOWN = {
    "colosseum-arches.jpg": {"triumphal arch"},
    "lake-sherburne.jpg": {"alp", "lakeside"},
    "lake-sherburne-peak.jpg": {"alp"},
    "oakland-zoo-otters.jpg": {"otter"},
    "otter-head.jpg": {"otter"},
}

@dataclass(frozen=True)
class Model:
    title: str
    file: Path
    sha256: str


@dataclass(frozen=True)
class Case:
    """The measurement of one process."""

    set: str
    part: str  # L1: the size that is seen, or AS_FILES; L2: pixels of the object; L3: all; L4: the largest object's size
    view: str
    options: list[str]
    folder: Path
    labels: list[Json] = field(repr=False)  # rows with file and class_index; L3: files alone; L4: class_indices

    def digest(self) -> str:
        """A digest of the pictures' names and classes: rows of other scenes are no rows of these."""
        text = json.dumps([[row["file"], row.get("class_index", row.get("class_indices"))] for row in self.labels])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def standard_error(percent: float, n: int) -> float:
    """The deviation of a share in percent, as binomial proportions have it; of none or all of them the deviation of the
    posterior with Jeffreys' prior, since a few pictures more could show others."""
    if 0 < percent < 100:
        return math.sqrt(percent * (100 - percent) / n)
    return 100 * math.sqrt(0.5 * (n + 0.5) / (n + 2)) / (n + 1)


def named_model(word: str) -> Model:
    """[TITLE=]NAME|FILE"""
    title, _, name = word.rpartition("=")
    bundled = ROOT / "assets" / "models" / f"{FAMILY}.{name.removeprefix(FAMILY + '.')}.safetensors"
    file = bundled if bundled.is_file() else Path(name)
    if not file.is_file():
        raise argparse.ArgumentTypeError(f"neither a bundled model nor a file: {name}")
    return Model(title or file.stem.removeprefix(FAMILY + "."), file, hashlib.sha256(file.read_bytes()).hexdigest())


def read_labels(file: Path) -> list[Json]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def scene_cases(name: str, folder: Path, views: list[str]) -> Iterator[Case]:
    """By size, those of `fill` as a part of L1."""
    rows = read_labels(folder / "labels.csv")
    for size in dict.fromkeys(row["size"] for row in rows):
        labels = [row for row in rows if row["size"] == size]
        if (name == "L1") == (size == "fill"):
            for view in views:
                yield Case(name, AS_FILES if size == "fill" else size, view, VIEWS[view], folder, labels)


def cases_of(arguments: argparse.Namespace) -> list[Case]:
    cases: list[Case] = []
    if "L1" in arguments.sets and "whole" in arguments.views:
        labels = read_labels(arguments.photographs / "images.csv")
        cases += [Case("L1", size, "whole", ["--img-size", size], arguments.photographs, labels) for size in SIZES]
    folders = {"L1": arguments.enlarged, "L2": arguments.scenes, "L2soft": arguments.soft, "L4": arguments.natural}
    for set_name, folder in folders.items():
        if set_name in arguments.sets and folder:
            cases += scene_cases(set_name, folder, arguments.views)
    if "L3" in arguments.sets:
        labels = [{"file": name} for name in SHOWN]
        cases += [Case("L3", "all", view, VIEWS[view], ROOT / "assets" / "images", labels) for view in arguments.views]
    return [case for case in cases if not arguments.parts or case.part in arguments.parts]


def evaluate(command: list[str], case: Case, limit: int | None) -> tuple[Json, Run]:
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["file", "class_index"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(case.labels)
        file.flush()
        words = [str(case.folder), "--labels-csv", file.name, "--format", "json"]
        ran = run([*command, *words, *(["--limit-images", limit] if limit else [])])
    report = json.loads(ran.output)
    return {"n": report["images"], "top1": report["top1"], "top5": report["top5"]}, ran


def is_right(row: Json, answer: Json) -> bool:
    if known := row.get("class_indices", row.get("class_index")):
        return str(answer["index"]) in known.split()
    return answer["label"] in SHOWN[row["file"]]


def overlap(row: Json, box: Json) -> float:
    """Intersection over union of a box and the scene's photograph, which is square."""
    left, top, size = (int(row[name]) for name in ("left", "top", "size"))
    width = min(left + size, box["left"] + box["width"]) - max(left, box["left"])
    height = min(top + size, box["top"] + box["height"]) - max(top, box["top"])
    inside = max(0, width) * max(0, height)
    return inside / (size * size + box["width"] * box["height"] - inside)


def boxes_of(labels: list[Json], records: list[Json]) -> Json:
    """In percent: right answers whose box has an overlap of 0.5 or more, and scenes of one thing in which several are shown."""
    right = [(row, one["top"][0]) for row, one in zip(labels, records) if is_right(row, one["top"][0])]
    boxes = [overlap(row, answer["box"]) >= 0.5 for row, answer in right]
    several = [len(one.get("things", [])) > 1 for one in records]
    return {"right": len(right), "right_boxes": 100 * sum(boxes) / max(1, len(right)), "several": 100 * sum(several) / len(several)}


def spread(rows: list[Json], limit: int | None) -> list[Json]:
    """`limit` of them, evenly spread."""
    count = min(limit or len(rows), len(rows))
    return [rows[i * len(rows) // count] for i in range(count)]


def classify(command: list[str], case: Case, limit: int | None) -> tuple[Json, Run]:
    """Whether the answer is what the picture shows; in L3 also what is answered, in looks at scenes also where."""
    labels = spread(case.labels, limit)
    ran = run([*command, *(str(case.folder / row["file"]) for row in labels), "--topk", TOP, "--format", "jsonl"])
    answers: Json = {}
    ranks = []
    records = [json.loads(line) for line in ran.output.splitlines()]
    for row, record in zip(labels, records, strict=True):
        top = record["top"]
        rank = next((one["rank"] for one in top if is_right(row, one)), math.inf)
        answers[row["file"]] = {"label": top[0]["label"], "prob": round(top[0]["prob"], 4), "is_right": rank == 1}
        ranks.append(rank)
    share = {f"top{k}": 100 * sum(rank <= k for rank in ranks) / len(ranks) for k in (1, TOP)}
    more = {"answers": answers} if case.set == "L3" else {}
    if case.view == "look" and case.set.startswith("L2"):
        more = boxes_of(labels, records)
    return {"n": len(ranks), **share, **more}, ran


def measure(program: str, model: Model, case: Case, limit: int | None) -> Json:
    is_listed = case.set in ("L3", "L4") or case.view == "look"
    command = [program, "classify" if is_listed else "evaluate", "-m", str(model.file), *case.options]
    # One picture at a time: milliseconds and memory are then those of a picture, not of a batch.
    command += ["--precision", PRECISION, "--batch-size", "1", "-v"]
    # Five pictures are not thinned out.
    result, ran = classify(command, case, limit if case.set != "L3" else None) if is_listed else evaluate(command, case, limit)
    timing = ran.timing()
    return {**result, "ms": round(1e3 * timing["seconds"] / timing["images"], 2),
            "model_ms": round(1e3 * timing["model_seconds"] / timing["images"], 2), "peak_mb": round(ran.peak_bytes / 1e6)}


class Record:
    """docs/measurements/resolution.json: models by checksum, and a row per model, set, part and view."""

    KEY = ("model", "set", "part", "view")

    def __init__(self, file: Path) -> None:
        self.file = file
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"models": {}, "rows": []}
        self.models: Json = kept["models"]
        self.rows = {tuple(row[name] for name in self.KEY): row for row in kept["rows"]}

    def write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"models": self.models, "rows": list(self.rows.values())}, indent=1)
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text + "\n", encoding="utf-8")
        fresh.replace(self.file)

    def row(self, model: Model, case: Case) -> Json | None:
        return self.rows.get((model.sha256, case.set, case.part, case.view))

    def is_measured(self, model: Model, case: Case, limit: int | None) -> bool:
        row = self.row(model, case)
        # Five pictures are not thinned out.
        wanted = min(limit or len(case.labels), len(case.labels)) if case.set != "L3" else len(case.labels)
        return row is not None and row["labels"] == case.digest() and row["n"] >= wanted

    def add(self, model: Model, case: Case, result: Json, where: Json) -> None:
        key = (model.sha256, case.set, case.part, case.view)
        self.rows[key] = {**dict(zip(self.KEY, key)), "labels": case.digest(), **result, **where}
        self.write()

    def time(self, model: Model, case: Case, result: Json, where: Json) -> None:
        times = {name: result[name] for name in ("ms", "model_ms", "peak_mb")}
        self.row(model, case).update({**times, "timed": result["n"], "timed_commit": where["commit"]})
        self.write()

    def title(self, sha256: str) -> str:
        """With the beginning of the checksum where several models have one title."""
        title = self.models[sha256]
        return title if list(self.models.values()).count(title) == 1 else f"{title} ({sha256[:7]})"

    def of(self, set_name: str) -> list[Json]:
        """Its rows: models in the order of their first measurement, then views, then parts as they are listed."""
        models, views = list(self.models), list(VIEWS)
        rows = [row for row in self.rows.values() if row["set"] == set_name]
        return sorted(rows, key=lambda row: (models.index(row["model"]), views.index(row["view"]), part_order(row["part"])))


def part_order(part: str) -> tuple[bool, int, str]:
    return part == AS_FILES, int(part.partition("x")[0]) if part[0].isdecimal() else 0, part


def share(percent: float, n: int) -> str:
    return f"{percent:.1f} ± {standard_error(percent, n):.1f}"


def score(row: Json | None) -> str:
    if row is None:
        return "-"
    return f"{share(row['top1'], row['n'])} / {row['top5']:.1f}"


def milliseconds(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def summary(row: Json) -> str:
    return f"{score(row)}, {milliseconds(row['model_ms'])} ms, {row['peak_mb']} MB, n={row['n']}"


def counts(rows: list[Json]) -> str:
    numbers = sorted({row["n"] for row in rows})
    return "-".join(str(n) for n in dict.fromkeys((numbers[0], numbers[-1])))


def pooled(rows: list[Json]) -> Json:
    """One row of several, each picture of the same weight."""
    n = sum(row["n"] for row in rows)
    means = {name: sum(row["n"] * row[name] for row in rows) / n for name in ("top1", "top5", "ms", "model_ms")}
    return {**means, "n": n, "peak_mb": max(row["peak_mb"] for row in rows)}


def groups(rows: list[Json]) -> list[list[Json]]:
    """Rows of one model and view."""
    found: dict[tuple[str, str], list[Json]] = {}
    for row in rows:
        found.setdefault((row["model"], row["view"]), []).append(row)
    return list(found.values())


def costs(row: Json) -> list[str]:
    return [milliseconds(row["model_ms"]), milliseconds(row["ms"]), f"{row['peak_mb']:.0f}"]


COSTS = ["ms of the model", "ms in all", "MB"]


def l1_section(record: Record) -> str:
    rows = [row for row in record.of("L1") if row["part"] != AS_FILES]
    parts = sorted({row["part"] for row in rows}, key=part_order)
    by_part = [(group, {row["part"]: row for row in group}) for group in groups(rows)]
    text = "Top-1 ± its standard error / top-5, by the size that the model sees:\n\n" + table(
        ["model", *parts, "n"],
        [[record.title(group[0]["model"]), *(score(of.get(part)) for part in parts), counts(group)] for group, of in by_part], 1)
    text += "\nMilliseconds of the model per picture, and peak memory of the process in MB:\n\n" + table(
        ["model", *parts],
        [[record.title(group[0]["model"]), *(f"{milliseconds(of[part]['model_ms'])} ms, {of[part]['peak_mb']} MB" if part in of else "-"
                                             for part in parts)] for group, of in by_part], 1)
    files = [row for row in record.of("L1") if row["part"] == AS_FILES]
    if files:
        text += f"\nEnlarged to {AS_FILES}, then seen in each way:\n\n" + table(
            ["model", "view", "top-1 / top-5", *COSTS, "n"],
            [[record.title(row["model"]), row["view"], score(row), *costs(row), str(row["n"])] for row in files], 2)
    return text


def parts_section(record: Record, name: str) -> str:
    rows = record.of(name)
    parts = sorted({row["part"] for row in rows}, key=part_order)
    cells, boxes = [], []
    for group in groups(rows):
        of, whole = {row["part"]: row for row in group}, pooled(group)
        title = record.title(group[0]["model"])
        cells.append([title, group[0]["view"], *(score(of.get(part)) for part in parts),
                      score(whole) if len(of) == len(parts) else "-", *costs(whole), str(whole["n"])])
        if all("right_boxes" in row for row in group):
            boxes += [[title, row["part"], share(row["right_boxes"], row["right"]), share(row["several"], row["n"])] for row in group]
    titles = [f"{part} pixels" if part.isdecimal() else part for part in parts]
    text = table(["model", "view", *titles, "all", *COSTS, "n"], cells, 2)
    if boxes:
        text += ("\nBoxes of looks, in %: right answers whose box has an intersection over union of at least 0.5 with the photograph; scenes in "
                 "which several things are shown:\n\n") + table(["model", "pixels", "right boxes", "several things"], boxes, 1)
    return text


def l2_section(record: Record) -> str:
    return "Top-1 ± its standard error / top-5, by the photograph's side in the scene:\n\n" + parts_section(record, "L2")


def soft_section(record: Record) -> str:
    return "The same with soft edges:\n\n" + parts_section(record, "L2soft")


def l4_section(record: Record) -> str:
    return "Top-1 ± its standard error / top-5, by the share of the largest labelled object:\n\n" + parts_section(record, "L4")


def l3_section(record: Record) -> str:
    cells = []
    for row in record.of("L3"):
        answers = [f"{'**' if one['is_right'] else ''}{one['label']}{'**' if one['is_right'] else ''} {100 * one['prob']:.0f} %"
                   for one in (row["answers"][name] for name in SHOWN)]
        shares = [f"{row['n'] * row[name] / 100:.0f} of {row['n']}" for name in ("top1", "top5")]
        cells.append([record.title(row["model"]), row["view"], *answers, *shares, *costs(row)])
    names = [f"`{name.removesuffix('.jpg')}`" for name in SHOWN]
    return "The answer and its probability, bold where right:\n\n" + table(
        ["model", "view", *names, "top-1", "top-5", *COSTS], cells, 2 + len(SHOWN))


def measured_by(rows: list[Json]) -> str:
    machines = sorted({row["machine"] for row in rows})
    commits = sorted({row["commit"] for row in rows})
    return f"\nMeasured on {' and '.join(machines)}, by the program of commit {', '.join(f'`{one}`' for one in commits)}.\n"


SECTIONS = {"L1": l1_section, "L2": l2_section, "L2soft": soft_section, "L3": l3_section, "L4": l4_section}


def fill_in(page: str, record: Record) -> str:
    """The page with new sections between its marks."""
    for name, section in SECTIONS.items():
        rows = record.of(name)
        text = section(record) + measured_by(rows) if rows else "Not measured yet.\n"
        page, number = re.subn(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", lambda found: found[1] + text + found[2], page,
                               flags=re.DOTALL)
        if number != 1:
            raise SystemExit(f"error: the page has {number} sections <!-- {name} -->")
    return page


COLORS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"]
# Around (0, 0).
MARKS = {
    "whole": '<circle r="4.5"/>',
    "native": '<rect x="-4" y="-4" width="8" height="8"/>',
    "tiles": '<path d="M0-5.5 5 4H-5Z"/>',
    "pyramid": '<path d="M0-6 6 0 0 6-6 0Z"/>',
    "look": '<path d="M0-7 1.8-2.2 7-2.2 2.8 1 4.4 6 0 3-4.4 6-2.8 1-7-2.2-1.8-2.2Z"/>',
}
# Title, set, and parts, or all of them.
PANELS: list[tuple[str, str, list[str]]] = [
    ("fills 1088x1920", "L1", [AS_FILES]),
    *((f"object of {part} pixels in 1088x1920", "L2", [part]) for part in ("150", "299", "600")),
    ("the same objects, soft edges", "L2soft", []),
    ("natural pictures, small things", "L4", ["small things"]),
    ("natural pictures, all", "L4", []),
    ("five bundled photographs", "L3", []),
]
COLUMNS = 4


def panel_rows(record: Record, name: str, parts: list[str], models: set[str]) -> list[Json]:
    """A row for each model and view that were measured on all of the parts."""
    rows = [row for row in record.of(name) if row["model"] in models and (not parts or row["part"] in parts)]
    wanted = {row["part"] for row in rows}
    return [{**group[0], **pooled(group)} for group in groups(rows) if {row["part"] for row in group} == wanted]


def figure(record: Record) -> str:
    """Top-1 against milliseconds from file to answer (a logarithmic axis) of the models that were measured in several views, a
    panel per set; bars are standard errors. "" without such models."""
    views: dict[str, set[str]] = {}
    for row in record.rows.values():
        views.setdefault(row["model"], set()).add(row["view"])
    seen = {model for model, found in views.items() if len(found) > 1}
    panels = [(title, rows) for title, name, parts in PANELS if (rows := panel_rows(record, name, parts, seen))]
    if not panels:
        return ""
    models = [model for model in record.models if model in seen]
    color = {model: COLORS[i % len(COLORS)] for i, model in enumerate(models)}
    times = [row["ms"] for _, rows in panels for row in rows]
    low, high = math.log10(min(times) / 1.5), math.log10(max(times) * 1.5)
    ticks = [digit * 10.0**decade for decade in range(math.floor(low), math.ceil(high)) for digit in (1, 3)]
    side, gap, left, head, foot = 250, 22, 52, 28, 40
    width = left + min(COLUMNS, len(panels)) * (side + gap)
    lines = math.ceil(len(panels) / COLUMNS)
    bottom = lines * (head + side + foot)
    height = bottom + 30 + 18 * (1 + (len(models) - 1) // 3)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']

    def text(x: float, y: float, content: str, anchor: str = "middle", more: str = "") -> None:
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(content)}</text>')

    for i, (title, rows) in enumerate(panels):
        begin, top = left + i % COLUMNS * (side + gap), head + i // COLUMNS * (head + side + foot)
        text(begin + side / 2, top - 10, title)
        for percent in range(0, 101, 20):
            y = top + side * (1 - percent / 100)
            out.append(f'<path d="M{begin} {y:.1f}h{side}" stroke="#ddd"/>')
            if i % COLUMNS == 0:
                text(begin - 6, y + 4, str(percent), "end")
        for tick in (tick for tick in ticks if low <= math.log10(tick) <= high):
            x = begin + side * (math.log10(tick) - low) / (high - low)
            out.append(f'<path d="M{x:.1f} {top}v{side}" stroke="#ddd"/>')
            text(x, top + side + 15, f"{tick:g}")
        text(begin + side / 2, top + side + 32, "ms from file to answer")
        for row in rows:
            x = begin + side * (math.log10(row["ms"]) - low) / (high - low)
            y = top + side * (1 - row["top1"] / 100)
            error = side * standard_error(row["top1"], row["n"]) / 100
            said = f"{record.title(row['model'])}, {row['view']}: {row['top1']:.1f}, {milliseconds(row['ms'])} ms"
            out.append(f'<g transform="translate({x:.1f} {y:.1f})" fill="{color[row["model"]]}" fill-opacity=".8">'
                       f'<title>{escape(said)}</title><path d="M0 {-error:.1f}V{error:.1f}" stroke="{color[row["model"]]}"/>'
                       f'{MARKS[row["view"]]}</g>')
        if i % COLUMNS == 0:
            text(14, top + side / 2, "top-1, %", more=f' transform="rotate(-90 14 {top + side / 2})"')
    for i, (view, mark) in enumerate(MARKS.items()):
        x, y = left + 8 + 90 * i, bottom + 10
        out.append(f'<g transform="translate({x} {y})" fill="#555">{mark}</g>')
        text(x + 10, y + 4, view, "start")
    for i, model in enumerate(models):
        x, y = left + 8 + 250 * (i % 3), bottom + 30 + 18 * (i // 3)
        out.append(f'<circle cx="{x}" cy="{y}" r="4.5" fill="{color[model]}"/>')
        text(x + 10, y + 4, record.title(model), "start")
    return "\n".join([*out, "</svg>"]) + "\n"


def write_pages(record: Record, docs: Path) -> None:
    page = docs / "notes" / "resolution.md"
    text = (page if page.is_file() else ROOT / "docs" / "notes" / "resolution.md").read_text(encoding="utf-8")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(fill_in(text, record), encoding="utf-8")
    if drawn := figure(record):
        (docs / "figures").mkdir(exist_ok=True)
        (docs / "figures" / "resolution.svg").write_text(drawn, encoding="utf-8")


def place_of(program: str) -> Json:
    doctor = run_json([program, "doctor"])
    return {"machine": f"{doctor['processors']} processors of {doctor['cpu']}", "commit": doctor["commit"]}


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, help="needed by L1")
    parser.add_argument("--scenes", type=Path, help="needed by L2")
    parser.add_argument("--soft", type=Path, help="L2soft")
    parser.add_argument("--natural", type=Path, help="L4")
    parser.add_argument("--enlarged", type=Path, help="a part of L1")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=SETS)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="[TITLE=]NAME|FILE")
    parser.add_argument("--views", nargs="+", choices=list(VIEWS), default=list(VIEWS))
    parser.add_argument("--parts", nargs="+", metavar="PART", help="sizes of L1 and L2 (default: all)")
    parser.add_argument("--limit", type=int, help="pictures per row (default: all)")
    parser.add_argument("--again", action="store_true", help="measure what is known, too")
    parser.add_argument("--times", type=int, metavar="N", help="time and memory of known rows alone, on N pictures")
    parser.add_argument("--program", default=str(PROGRAM))
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page, the JSON and the figure")
    arguments = parser.parse_args(words)
    for set_name, option in (("L1", "photographs"), ("L2", "scenes")):
        if set_name in arguments.sets and getattr(arguments, option) is None:
            parser.error(f"{set_name} needs --{option}")
    for folder, name in ((arguments.photographs, "images.csv"), (arguments.scenes, "labels.csv"), (arguments.enlarged, "labels.csv"),
                         (arguments.soft, "labels.csv"), (arguments.natural, "labels.csv")):
        if folder and not (folder / name).is_file():
            parser.error(f"no such file: {folder / name}")
    if arguments.limit is not None and arguments.limit < 1:
        parser.error(f"--limit: expected at least one picture, found {arguments.limit}")
    try:
        arguments.models = [named_model(word) for word in arguments.models]
    except argparse.ArgumentTypeError as error:
        parser.error(f"--models: {error}")
    return arguments


def main(words: list[str] | None = None) -> int:
    arguments = parse(words)
    record = Record(arguments.docs / "measurements" / "resolution.json")
    failed = 0
    cases = cases_of(arguments)
    if arguments.sets and not cases:
        print("error: nothing to measure: these sets, views and parts have nothing in common", file=sys.stderr)
        return 2
    where = place_of(arguments.program) if cases else {}
    for model in arguments.models if cases else []:
        record.models[model.sha256] = model.title
        for case in cases:
            name = f"{model.title}, {case.set}, {case.part}, {case.view}"
            if arguments.times:
                if record.row(model, case):
                    record.time(model, case, measure(arguments.program, model, case, arguments.times), where)
                    print(f"{name}: {summary(record.row(model, case))}", flush=True)
                continue
            if not arguments.again and record.is_measured(model, case, arguments.limit):
                print(f"{name}: known, {summary(record.row(model, case))}")
                continue
            try:
                result = measure(arguments.program, model, case, arguments.limit)
            except Failure as failure:
                failed += 1
                print(f"{name}: {failure}", file=sys.stderr)
                continue
            record.add(model, case, result, where)
            print(f"{name}: {summary(result)}", flush=True)
    record.write()
    write_pages(record, arguments.docs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
