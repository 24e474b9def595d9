"""The converted models' tables (printed) and cards: docs/measurements/models.json, assets/models/*.md.

    python scripts/measure/model_report.py PICTURES REPORTS [--program FILE] [--rounds 3] [--measure scores sizes speed]

PICTURES is what scripts/make/make_models.sh was given, REPORTS the folder of its reports, one per model and seed; seeds that
docs/measurements/models.json has from earlier stay. Every bundled model is scored on every labelled set (scores), on the
photographs at other picture sizes (sizes) and timed by `hydrascope benchmark`, in turns (speed), while nothing else should run on the
machine. --measure takes some of the three, or none to add the reports' seeds only; the rest stays as it is in the file. Only the
standard library is used.
"""

import argparse
import json
import re
import statistics
from pathlib import Path

from program import PROGRAM, ROOT, Json, benchmark, machine, run_json, table

FAMILY = "deit_tiny_patch16_224"
TEACHER = f"{FAMILY}.softmax"
TITLES = {
    "hydra_last1": "Hydra in the last layer",
    "hydra_last2": "Hydra in the last 2 layers",
    "hydra_last4": "Hydra in the last 4 layers",
    "hedgehog": "Hedgehog in all layers",
    "mixed": "Hydra in the last 2 layers, Hedgehog in the other ten",
    "hydra": "Hydra in all layers",
    "hydra_window": "Hydra with softmax windows of 7x7 in all layers, 4 epochs",
    "window": "windows and an overview in all layers",
}
STAGES = {
    "start": "exchanged, nothing learned",
    "hydra start": "Hydra's start fitted",
    "maps": "maps imitate the rows",
    "outputs": "attention outputs matched",
    "finetune": "end to end",
    "sizes": "sizes and scenes",
}
START_OF_OTHERS = "the layers of earlier conversions put together"
BUNDLED = [key for key in TITLES if (ROOT / "assets" / "models" / f"{FAMILY}.{key}.safetensors").exists()]
# Folder of PICTURES, options, what a card says of it.
SETS = {
    "ccby_1k_eval": (["--labels-csv", "{}/images.csv"],
                     "500 CC-BY photographs, 1000 classes; nothing was learned from them or chosen by them"),
    "imagenette/val": ([], "500 pictures of ten classes, not among those learned from"),
    "imagenet_1k_one_each": ([], "1000 pictures, one per class; most of them were learned from, without labels"),
}
# The training pictures of scripts/make/make_models.sh.
SOURCES = {
    "imagenette/train": "imagenette (ten classes of ImageNet)",
    "imagenet_1k_one_each": "ImageNet, one picture per class",
    "caltech101_unlabelled": "Caltech-101",
}
SIZES = {"224": ["-b", "32"], "1088x1920": ["-b", "1"]}
PHOTOGRAPHS = "ccby_1k_eval"
# The photographs are 300 pixels on the shorter side: from 288 on they are enlarged.
OTHER_SIZES = [160, 288, 384, 512]
MEASUREMENTS = ["scores", "sizes", "speed"]


def evaluate(program: str, model: str, pictures: Path, name: str, *options: str) -> Json:
    folder = pictures / name
    labels = (word.format(folder) for word in SETS[name][0])
    return run_json([program, "evaluate", folder, *labels, "-m", model, *options])


def score(program: str, model: str, pictures: Path) -> Json:
    scores = {}
    for name in SETS:
        report = evaluate(program, model, pictures, name, *([] if model == TEACHER else ["--against", TEACHER]))
        scores[name] = {"images": report["images"], "top1": report["top1"], "top5": report["top5"], "ece": report["ece"],
                        "agreement": report.get("agreement_top1"), "kl": report.get("agreement_kl")}
    return scores


def score_sizes(program: str, model: str, pictures: Path) -> dict[str, float]:
    """Top-1 on the photographs by picture size."""
    return {str(size): evaluate(program, model, pictures, PHOTOGRAPHS, "--img-size", str(size), "--precision", "bfloat16")["top1"]
            for size in OTHER_SIZES}


def time_models(program: str, models: list[str], rounds: int) -> dict[str, Json]:
    """Medians over rounds in which every model has its turn."""
    rows: dict[str, dict[str, list[Json]]] = {model: {size: [] for size in SIZES} for model in models}
    for _ in range(rounds):
        for model in models:
            for size, batch in SIZES.items():
                options = ["--img-size", size, *batch, "--warmup", 1, "--iters", 10 if size == "224" else 3, "--precision", "bfloat16"]
                rows[model][size].append(benchmark(program, "-m", model, *options))
    return {model: {size: {"images_per_second": statistics.median(row["images_per_second"] for row in measured),
                           "peak_memory_mb": statistics.median(row["peak_memory_bytes"] for row in measured) / 1e6}
                    for size, measured in sizes.items()} for model, sizes in rows.items()}


def conversions(reports: Path) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for file in sorted(reports.glob(f"{FAMILY}.*.seed*.json")):
        report = json.loads(file.read_text())
        report["seed"] = int(re.search(r"seed(\d+)", file.name)[1])
        report["sources"] = {name: [int(number) for number in re.search(r"\((\d+) \+ (\d+)\)", line).groups()]
                             for name in SOURCES for line in report.get("sources", []) if f"{name} (" in line}
        found.setdefault(file.name.split(".")[1], []).append(report)
    return found


def spread(values: list[float], digits: int = 1) -> str:
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def title(model: str) -> str:
    return TITLES.get(model.removeprefix(FAMILY + "."), "softmax")


def results_table(figures: Json) -> str:
    cells = []
    for model, row in figures["bundled"].items():
        scores, speed = row["scores"][PHOTOGRAPHS], row["speed"]
        seeds = [run["eval_top1"] for run in figures["seeds"].get(model.removeprefix(FAMILY + "."), [])]
        agreement = "-" if scores["agreement"] is None else f"{scores['agreement']:.1f} %"
        cells.append([title(model), f"`{model}`", f"{scores['top1']:.1f}", spread(seeds) if seeds else "-", agreement,
                      f"{speed['224']['images_per_second']:.0f}", f"{speed['1088x1920']['images_per_second']:.2f}",
                      f"{speed['1088x1920']['peak_memory_mb']:.0f} MB"])
    return table(["attention", "model", "top-1", "of all seeds", "agrees with the softmax model", "images/s at 224", "images/s at 1080p",
                  "memory at 1080p"], cells, texts=2)


def sizes_table(figures: Json) -> str:
    """Top-1 on the photographs by picture size, 224 among the others."""
    rows = {model: {"224": row["scores"][PHOTOGRAPHS]["top1"], **row["sizes"]} for model, row in figures["bundled"].items()}
    sizes = sorted(next(iter(rows.values())), key=int)
    return table(["attention", *sizes], [[title(model), *(f"{row[size]:.1f}" for size in sizes)] for model, row in rows.items()])


def seeds_table(figures: Json) -> str:
    cells = [[TITLES[key], ", ".join(f"{run['eval_top1']:.1f}" for run in runs), spread([run["eval_top1"] for run in runs]),
              f"{spread([run['agreement'] for run in runs])} %", spread([run["minutes"] for run in runs]),
              spread([run["stages"][-1]["images_per_second"] for run in runs])] for key, runs in figures["seeds"].items()]
    return table(["attention", "top-1 of each seed", "mean ± deviation", "agreement on the held-out pictures", "minutes",
                  "images/s of the last stage"], cells, texts=2)


def stage_cell(runs: list[Json], stage: str) -> str:
    """Agreement in % and divergence at its end."""
    ends = [[look for look in run["evaluations"] if look["stage"] == stage][-1:] for run in runs]
    looks = [look for end in ends for look in end]
    found = [f"{spread([look['agreement'] for look in looks])} % / {spread([look['divergence'] for look in looks], 3)}"] if looks else []
    return " ".join([*found, *([f"({START_OF_OTHERS})"] if stage == "start" and "start" in runs[0]["recipe"] else [])])


def stages_table(figures: Json) -> str:
    """The gain of each stage, over the seeds."""
    cells = [[TITLES[key], *(stage_cell(runs, stage) for stage in STAGES)] for key, runs in figures["seeds"].items()]
    return table(["attention", *STAGES.values()], cells, texts=1 + len(STAGES))


def recipe_of(file: Path) -> Json:
    """The settings in a model's metadata."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        return json.loads(json.loads(stream.read(size))["__metadata__"]["recipe"])


def parents_of(recipe: Json) -> list[str]:
    """The models whose layers a conversion began with."""
    return re.findall(rf"{re.escape(FAMILY)}\.(\w+)\.seed", recipe.get("start", ""))


def settings(recipe: Json, processes: int) -> str:
    if recipe.get("sizes"):
        before = (" It is the second of two such runs. The first one began with the softmax model, saw more scenes (60 %, now 40 %) and ended as "
                  "the file that `start` in the recipe names, which is not kept. The script makes one run: its models differ from this one by what "
                  "three seeds of it show ([tables](../../docs/notes/resolution.md#what-it-was-to-reach)).") if recipe.get("start") else ""
        return (f"{recipe['steps-sizes']} steps, each as many pixels as {recipe['batch-size'] * processes} pictures of 224x224, learning rate "
                f"{float(recipe['lr-sizes']):g}; sizes {', '.join(recipe['sizes'])}; scenes on {len(recipe.get('scenes', []))} backgrounds.{before}")
    number = {name: float(recipe[name]) for name in ("epochs", "batch-size", "lr", "mixup")}
    smallest = recipe["scale"].split()[0] if isinstance(recipe["scale"], str) else recipe["scale"][0]
    epochs = f"{number['epochs']:g} epoch{'s' if number['epochs'] != 1 else ''}"
    text = (f"Last stage: {epochs}, {number['batch-size'] * processes:g} pictures per step, learning rate {number['lr']:g}, "
            f"crops from {smallest} of the area")
    if number["mixup"] > 0:
        text += f", mixup or CutMix in 70 % of the batches"
    return text + "."


def card(key: str, figures: Json) -> str:
    model = f"{FAMILY}.{key}"
    row, runs = figures["bundled"][model], figures["seeds"][key]
    recipe = recipe_of(ROOT / "assets" / "models" / f"{model}.safetensors")
    made = next(run for run in runs if run["seed"] == int(recipe["seed"]))
    parents = parents_of(recipe)
    minutes = f"{made['minutes']:.0f} minutes"
    if parents:
        whole = made["minutes"] + sum(run["minutes"] for parent in parents for run in figures["seeds"][parent] if run["seed"] == made["seed"])
        minutes += f" ({whole:.0f} with the conversions that it begins with)"
    processes = int(re.search(r"(\d+) process", made["computed"])[1])
    learned, held_out = (sum(counts[i] for counts in made["sources"].values()) for i in range(2))
    begin = f" It began with the layers of the {' and '.join(parents)} models of the same seed." if parents else ""
    starts = "".join(f" --start {FAMILY}.{parent}.seed{made['seed']}.safetensors" for parent in parents)
    epochs = f" --epochs {float(recipe['epochs']):g}" if parents else ""
    kept = " --set overview=on --sizes ... --scenes ..." if recipe.get("sizes") else ""
    command = f"--attn {recipe['attn']}{kept}{starts}{epochs} --seed {made['seed']} ..."
    text = f"""# {model}

DeiT-Tiny/16 at 224 pixels, 1000 classes of ImageNet: {TITLES[key]} (`{made['attention']}`), converted by
`hydrascope convert` from the softmax model beside it. float16, {row['bytes'] / 1e6:.1f} MB.

## How it was made

`scripts/make/make_models.sh PICTURES OUTPUT {made['seed']} {' '.join([*parents, key])}`, which is `hydrascope convert {command}`;
{minutes} on {figures['machine']}. The softmax model was the teacher; no label was used.
{settings(recipe, processes)}{begin}
The whole recipe and the parent's SHA-256 are in the file's metadata (`hydrascope inspect {model}.safetensors`).

"""
    # A step of `sizes` takes fewer pictures the larger they are.
    text += table(["stage", "steps", "pictures", "images/s"],
                  [[stage["stage"], str(stage["steps"]), *(("-", "-") if stage["stage"] == "sizes" else
                    (str(stage["images"]), f"{stage['images_per_second']:.0f}"))] for stage in made["stages"]])
    text += f"""
## Data

{learned:,} pictures without their labels: {', '.join(f"{counts[0]:,} of {SOURCES[name]}" for name, counts in made["sources"].items())}.
{held_out} more of the same folders chose the state that was kept, {made['best_state']}: agreement with the teacher on them {made['agreement']:.1f} %.

## Figures

"""
    text += table(["set", "images", "top-1", "top-5", "agrees with the softmax model", "ECE", ""],
                  [[name, str(scores["images"]), f"{scores['top1']:.1f}", f"{scores['top5']:.1f}", f"{scores['agreement']:.1f} %",
                    f"{scores['ece']:.3f}", SETS[name][1]] for name, scores in row["scores"].items()])
    teacher = figures["bundled"][TEACHER]
    text += f"\nThe softmax model: {', '.join(format(s['top1'], '.1f') + ' on ' + n for n, s in teacher['scores'].items())}. "
    text += f"Top-1 on {PHOTOGRAPHS} over {len(runs)} seed{'s' if len(runs) > 1 else ''}: {spread([run['eval_top1'] for run in runs])}.\n\n"
    for size, speed in row["speed"].items():
        ratio = speed["images_per_second"] / teacher["speed"][size]["images_per_second"]
        text += (f"- {size}: {speed['images_per_second']:.2f} images/s, {ratio:.2f} times the softmax model, {speed['peak_memory_mb']:.0f} MB "
                 f"(bfloat16, {figures['machine']})\n")
    sizes = recipe.get("sizes")
    learned_at = f"sizes from {sizes[0]} to {sizes[-1]}" if sizes else "224 pixels"
    larger = " [Larger ones, and small things in large pictures](../../docs/notes/resolution.md)." if sizes else ""
    others = ", ".join(f"{top1:.1f} ({teacher['sizes'][size]:.1f}) at {size}" for size, top1 in row["sizes"].items())
    text += f"""
## Limits

- It learned to imitate the softmax model on the kinds of pictures above. Classes far from them lose more than the mean says.
- It learned at {learned_at}. Top-1 on {PHOTOGRAPHS} at other sizes (in brackets the softmax model): {others}.{larger}
- It repeats the errors and the biases of the softmax model.

Licence: Apache-2.0, as the softmax model's (`assets/NOTICE`).
"""
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--machine", help="as the cards name it (default: what /proc/cpuinfo says)")
    parser.add_argument("--measure", nargs="*", choices=MEASUREMENTS, default=MEASUREMENTS)
    parser.add_argument("--only", nargs="+", metavar="KEY", help="score these models, as window; speed is always that of all, in turns")
    arguments = parser.parse_args()
    raw = ROOT / "docs" / "measurements" / "models.json"
    figures = json.loads(raw.read_text()) if raw.exists() else {"bundled": {}, "seeds": {}}
    models = [TEACHER, *(f"{FAMILY}.{key}" for key in BUNDLED)]
    rows = {model: figures["bundled"].get(model, {}) for model in models}
    if "speed" in arguments.measure:
        figures["machine"] = arguments.machine or machine()
        for model, speed in time_models(arguments.program, models, arguments.rounds).items():
            rows[model]["speed"] = speed
    for model, row in rows.items():
        if arguments.only and model.removeprefix(FAMILY + ".") not in arguments.only:
            continue
        if "scores" in arguments.measure:
            file = ROOT / "assets" / "models" / f"{model}.safetensors"
            row |= {"bytes": file.stat().st_size, "scores": score(arguments.program, model, arguments.pictures)}
        if "sizes" in arguments.measure:
            row["sizes"] = score_sizes(arguments.program, model, arguments.pictures)
    figures["bundled"] = rows
    keep = ["seed", "attention", "agreement_before", "agreement", "divergence", "best_state", "eval_top1", "minutes", "stages", "layers",
            "evaluations", "recipe", "computed", "sources"]
    for key, runs in conversions(arguments.reports).items():
        known = {run["seed"]: run for run in figures["seeds"].get(key, [])}
        known |= {run["seed"]: {name: run[name] for name in keep if name in run} for run in runs}
        figures["seeds"][key] = [known[seed] for seed in sorted(known)]
    raw.write_text(json.dumps(figures, indent=1) + "\n")
    if all(set(MEASUREMENTS) <= row.keys() for row in rows.values()):
        for key in BUNDLED:
            (ROOT / "assets" / "models" / f"{FAMILY}.{key}.md").write_text(card(key, figures))
        print(results_table(figures))
        print(sizes_table(figures))
    print(seeds_table(figures))
    print(stages_table(figures))


if __name__ == "__main__":
    main()
