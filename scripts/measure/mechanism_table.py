"""The tables of all attention mechanisms and position rules: docs/mechanisms.md and docs/mechanisms.json.

    python scripts/measure/mechanism_table.py --data FOLDER [--labels-csv FILE] [--pictures N] [--build build/release] [--only NAME..]

For every mechanism of the registry, and softmax with every position rule, in all layers of the bundled DeiT-Tiny without any training: top-1
over N pictures of FOLDER (whatever `hydrascope evaluate` takes; default: all) at two sizes; and at three sizes GFLOP of the network, the
time and peak memory of one forward pass by `hydrascope benchmark` and how much of softmax's weight lies near the query by `hydrascope
diagnose` of the bundled photographs. --only takes names of both and leaves the other rows as they are. What takes more than 240 seconds
(evaluate ten times as many) is stopped and says so. A row is written when it is there. Nothing else should run meanwhile.
"""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "hydrascope"
LIMIT = 240  # seconds of a command
Json = dict[str, Any]
Command = list[object]
SIZES = {"224x224": "224", "512x512": "512", "1088x1920": "1088x1920"}
LARGEST = "1088x1920"
# A cell of the tables that has no number.
REFUSES, SLOW, NOT_MEASURED = "refuses", "too slow", "-"
Value = float | str


def run_json(command: Command, limit: float | None = None) -> Json:
    """The JSON that a command prints, in one line or several."""
    words = [str(word) for word in [*command, "--format", "json", "-q"]]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=limit).stdout)


def ask(command: Command, limit: float = LIMIT) -> Json | str:
    """The JSON that a command prints, or why there is none."""
    try:
        return run_json(command, limit)
    except subprocess.TimeoutExpired:
        return SLOW
    except subprocess.CalledProcessError as failure:
        print(f"{' '.join(map(str, command))}: {failure.stderr.strip()}")
        return REFUSES


def table(head: list[str], rows: list[list[str]], texts: int = 1) -> str:
    """Markdown; the first `texts` columns hold text, the others numbers."""
    rule = ["---" if index < texts else "---:" for index in range(len(head))]
    lines = ["|" + "".join(f" {cell}".rstrip().replace("|", "\\|") + " |" for cell in cells) for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "|".join(rule) + "|", *lines[1:], ""])


def value(answer: Json | str, name: str) -> Value:
    return answer if isinstance(answer, str) else answer[name]


def near_mass(answer: Json | str) -> Value:
    """The mean over all layers."""
    if isinstance(answer, str):
        return answer
    layers = [row["near_mass"] for row in answer["rows"] if row["head"] is None]
    return sum(layers) / len(layers)


def measure(program: Path, name: str, rules: list[str], row: Json, arguments: argparse.Namespace) -> Json:
    """The row with what is measured now: 1 + 10 passes at the smaller sizes, 1 + 2 at the largest."""
    chosen = ["--attn", "softmax", "--set", f"rel-pos={name}"] if name in rules else ["--attn", name]
    data = [arguments.data, *(["--labels-csv", arguments.labels_csv] if arguments.labels_csv else []),
            *(["--limit-images", arguments.pictures] if arguments.pictures else [])]
    for label, size in SIZES.items():
        at_size = [*chosen, "--img-size", size]
        cells = row["sizes"].setdefault(label, {})
        info = ask([program, "models", "info", *at_size])
        rounds = 2 if label == LARGEST else 10
        speed = ask([program, "benchmark", *at_size, "--set", "measure.warmup=1", "--set", f"measure.iters={rounds}", "--precision", "float32"])
        cells |= {"gflops": value(info, "gflops_per_image"), "ms": speed, "peak_memory_mb": speed}
        if not isinstance(speed, str):
            cells |= {"ms": speed["rows"][0]["ms_p50"], "peak_memory_mb": speed["rows"][0]["peak_memory_bytes"] / 1e6}
        count = {"224x224": 5, "512x512": 2}.get(label, 1)
        cells["near_mass"] = near_mass(ask([program, "diagnose", ROOT / "assets" / "images", *at_size, "--limit-images", count]))
        if label != LARGEST:
            cells["top1"] = value(ask([program, "evaluate", *data, *at_size], 10 * LIMIT), "top1")
    print(json.dumps(row), flush=True)
    return row


def cell(number: Value, digits: int) -> str:
    return number if isinstance(number, str) else f"{number:.{digits}f}"


def cost_table(rows: list[Json], kind: str) -> str:
    cells = []
    for row in rows:
        cells.append([f"`{row['name']}`"])
        for size in row["sizes"].values():
            long = not isinstance(size["ms"], str) and size["ms"] >= 100
            cells[-1] += [cell(size["gflops"], 2), cell(size["ms"], 0 if long else 1), cell(size["peak_memory_mb"], 0)]
    return table([kind, *(head for size in SIZES for head in (f"GFLOP {size}", "ms", "MB"))], cells)


def accuracy_table(rows: list[Json], kind: str) -> str:
    scored = [size for size in SIZES if size != LARGEST]
    cells = []
    for row in rows:
        top1 = [cell(row["sizes"][size].get("top1", NOT_MEASURED), 1) for size in scored]
        near = [cell(size.get("near_mass", NOT_MEASURED), 2) for size in row["sizes"].values()]
        cells.append([f"`{row['name']}`", *top1, *near])
    heads = [*(f"top-1 {size}" for size in scored), *(f"near mass {size}" for size in SIZES)]
    return table([kind, *heads], cells)


def by_top1(row: Json) -> float:
    top1 = row["sizes"]["224x224"].get("top1", 0)
    return 0 if isinstance(top1, str) else -top1


def option_text(option: Json) -> str:
    values = option.get("choices")
    others = (", ".join(value for value in values if value != option["default"]) if values
              else f"{option['minimum']:g} to {option['maximum']:g}")
    return f"`{option['key']}` {option['default']} ({others})"


def definitions(infos: list[Json]) -> str:
    cells = []
    for info in infos:
        names = ", ".join(f"`{name}`" for name in [info["mechanism"], *info["aliases"]])
        options = "; ".join(option_text(option) for option in info["options"])
        cells.append([names, info["summary"], info["map"], options, info["citation"]])
    return table(["mechanism", "what", "map", "options: default (others)", "source"], cells, texts=5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="labelled images for `hydrascope evaluate`")
    parser.add_argument("--labels-csv", help="passed on to `hydrascope evaluate`")
    parser.add_argument("--pictures", type=int, help="evaluate so many pictures, evenly spread")
    parser.add_argument("--build", type=Path, default=PROGRAM.parent)
    parser.add_argument("--only", nargs="+", help="measure these, on the machine of the others, whose rows stay")
    parser.add_argument("--from-json", action="store_true", help="only write the text again")
    arguments = parser.parse_args()
    if not arguments.data and not arguments.from_json:
        parser.error("--data names the images to measure on")
    program = arguments.build / "hydrascope"
    raw = ROOT / "docs" / "mechanisms.json"
    listed = run_json([program, "models", "list"])
    names, rules = listed["mechanisms"], listed["position_rules"]
    if not arguments.from_json:
        chosen = arguments.only or names + rules
        if unknown := set(chosen) - set(names + rules):
            parser.error(f"no mechanism and no rule: {', '.join(sorted(unknown))}")
        kept = json.loads(raw.read_text())["rows"] if raw.exists() else []
        # The place of the assets is this checkout's alone.
        doctor = {key: value for key, value in run_json([program, "doctor"]).items() if key != "assets"}
        result = {"doctor": doctor, "data": Path(arguments.data).name, "pictures": arguments.pictures, "rows": kept}
        for name in chosen:
            known = next((row for row in result["rows"] if row["name"] == name), {"name": name, "sizes": {}})
            row = measure(program, name, rules, known, arguments)
            result["rows"] = [other for other in result["rows"] if other["name"] != name] + [row]
            raw.write_text(json.dumps(result, indent=1) + "\n")
    result = json.loads(raw.read_text())
    doctor, pictures = result["doctor"], result["pictures"]
    measured = sorted(result["rows"], key=by_top1)
    mechanisms = [row for row in measured if row["name"] in names]
    with_rules = [row for row in measured if row["name"] in rules]
    of_pictures = f"{pictures} pictures (a standard error of up to {50 / pictures ** 0.5:.0f} points) of " if pictures else ""
    text = f"""# Attention mechanisms

Each layer of a model chooses its mechanism: `--attn hydra`, `--attn softmax:0-9,hydra:10-11`, `--set attn-opt=hydra.scale=none`.
`scripts/measure/mechanism_table.py` writes this page from the program's own registry and from measurements ([raw](mechanisms.json)).

The tables are of the bundled DeiT-Tiny with the mechanism in all 12 layers and **no conversion**: the weights learned with
softmax, and added parameters have their starting values.

- **Top-1** is over {of_pictures}{result["data"]}.
- **Near mass** is the share of softmax's weight on patches near the query and on the prefix, for the layers' own queries and
  keys (mean over `hydrascope diagnose` of 5 bundled photographs at 224x224, 2 at 512x512, 1 at 1088x1920).
- **GFLOP, milliseconds** (median) **and MB** (peak resident memory of the process, libraries included) are of a forward pass of
  one image in float32, as commands run it: by kernels of the [inference plan](inference.md) if the mechanism has them, by its
  LibTorch module otherwise. The processor is {doctor["cpu"]} with {doctor["processors"]} threads.
- "refuses": the mechanism is tied to the size that it was made for. "too slow": the run was stopped. "-": not measured.

{cost_table(mechanisms, "mechanism")}
{accuracy_table(mechanisms, "mechanism")}
"""
    if with_rules:
        text += f"""Softmax with a [position rule](#positions) that it was not trained with:

{cost_table(with_rules, "rule")}
{accuracy_table(with_rules, "rule")}
"""
    infos = [run_json([program, "models", "info", name]) for name in names]
    text += f"""`hydrascope models info NAME` says what every option does, which parameters a mechanism adds and what they start with.

{definitions(infos)}"""
    # Positions are prose: what stands there stays.
    before = (ROOT / "docs" / "mechanisms.md").read_text()
    text = text.rstrip() + "\n\n## Positions" + before.split("\n## Positions", 1)[1]
    (ROOT / "docs" / "mechanisms.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
