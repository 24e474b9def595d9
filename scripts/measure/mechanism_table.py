"""The table of all attention mechanisms: docs/mechanisms.md and docs/mechanisms.json.

    python scripts/measure/mechanism_table.py --data FOLDER [--labels-csv FILE] [--build build/release] [--only NAME..]

For every mechanism of the registry, in all layers of the bundled DeiT-Tiny without any training:
top-1 over FOLDER (whatever `hydrascope evaluate` takes), GFLOP of the network, and the time and
peak memory of one forward pass at three sizes by `hydrascope benchmark`. Only the standard library is used.
Nothing else should run on the machine meanwhile.
"""

import argparse
import json
from pathlib import Path

from program import PROGRAM, ROOT, Command, Failure, Json, run_json, table

SIZES = ["224", "512", "1088x1920"]
NAMES = ["224x224", "512x512", "1088x1920"]


def ask(command: Command) -> Json | None:
    """What a command prints as JSON; None when the mechanism refuses the request."""
    try:
        return run_json(command)
    except Failure as failure:
        print(f"{' '.join(map(str, command))}: {failure}")
        return None


def measure(program: Path, name: str, data: list[str], rounds: int) -> Json:
    attention = ["--attn", name]
    score = ask([program, "evaluate", *data, *attention])
    row: Json = {"mechanism": name, "top1": score and score["top1"], "sizes": {}}
    for size, label in zip(SIZES, NAMES):
        info = ask([program, "models", "info", *attention, "--img-size", size])
        iterations = rounds if size != SIZES[-1] else max(2, rounds // 5)
        speed = ask([program, "benchmark", *attention, "--img-size", size, "--warmup", 1, "--iters", iterations,
                     "--precision", "float32", "--kernels", "reference"])
        speed = speed and speed["rows"][0]
        row["sizes"][label] = {
            "gflops": info and info["gflops_per_image"],
            "ms": speed and speed["ms_p50"],
            "peak_memory_mb": speed and speed["peak_memory_bytes"] / 1e6,
        }
    print(json.dumps(row), flush=True)
    return row


def cell(value: float | None, digits: int) -> str:
    return "refuses" if value is None else f"{value:.{digits}f}"


def measured_table(rows: list[Json]) -> str:
    cells = []
    for row in sorted(rows, key=lambda r: -(r["top1"] or 0)):
        cells.append([f"`{row['mechanism']}`", cell(row["top1"], 1)])
        for name in NAMES:
            size = row["sizes"][name]
            cells[-1] += [cell(size["gflops"], 2), cell(size["ms"], 0 if (size["ms"] or 0) >= 100 else 1),
                          cell(size["peak_memory_mb"], 0)]
    return table(["mechanism", "top-1", *(head for n in NAMES for head in (f"GFLOP {n}", "ms", "MB"))], cells)


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


def facts_of_the_machine(program: Path) -> Json:
    """What doctor says, without the place of the assets, which is this checkout's alone."""
    return {key: value for key, value in run_json([program, "doctor"]).items() if key != "assets"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="labelled images for `hydrascope evaluate`")
    parser.add_argument("--labels-csv", help="passed on to `hydrascope evaluate`")
    parser.add_argument("--build", type=Path, default=PROGRAM.parent)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="+", help="measure these, on the machine of the others, whose rows stay")
    parser.add_argument("--from-json", action="store_true", help="only write the text again")
    arguments = parser.parse_args()
    if not arguments.data and not arguments.from_json:
        parser.error("--data names the images to measure on")
    program = arguments.build / "hydrascope"
    raw = ROOT / "docs" / "mechanisms.json"
    raw.parent.mkdir(exist_ok=True)
    names = run_json([program, "models", "list"])["mechanisms"]
    if not arguments.from_json:
        data = [arguments.data]
        if arguments.labels_csv:
            data += ["--labels-csv", arguments.labels_csv]
        chosen = arguments.only or names
        kept = json.loads(raw.read_text())["rows"] if arguments.only else []
        result = {
            "doctor": facts_of_the_machine(program),
            "data": Path(arguments.data).name,
            "rows": [row for row in kept if row["mechanism"] not in chosen]
            + [measure(program, name, data, arguments.rounds) for name in chosen],
        }
        raw.write_text(json.dumps(result, indent=1) + "\n")
    result = json.loads(raw.read_text())
    doctor = result["doctor"]
    text = f"""# Attention mechanisms

Every mechanism can be chosen for every layer: `--attn hydra`, `--attn softmax:0-9,hydra:10-11`, `--attn-opt
hydra.scale=none`. This page is written by `scripts/measure/mechanism_table.py` from the program's own registry and from
measurements ([raw](mechanisms.json)).

The bundled DeiT-Tiny with the mechanism in all 12 layers and **no conversion**: weights trained with softmax, added
parameters at their initialisation. Top-1 over {result["data"]} (224x224); GFLOP, milliseconds (median) and peak resident
memory of the process, libraries included, for a forward pass of one image, float32, LibTorch modules (not the fused
kernels; the [inference plan](inference.md) is what commands run; `window` and `neighborhood` gather every row's own keys there and
are twenty times as slow as in the plan),
{doctor["cpu"]}, {doctor["processors"]} threads. "refuses": the mechanism is tied to the size it was made for.

{measured_table(result["rows"])}
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
