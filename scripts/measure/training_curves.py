"""Draws the curves of docs/results.md and docs/notes/from_scratch.md from docs/measurements.

    python scripts/measure/training_curves.py

docs/figures/conversion.svg: KL divergence from the softmax model on the held-out pictures over minutes, every seed of every
conversion in models.json. docs/figures/from_scratch.svg: loss and top-1 over epochs of every from_scratch/NAME.jsonl: the lines of a
`hydrascope train`'s metrics.jsonl that have a train_loss, one per epoch. Needs matplotlib.
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

from model_report import TITLES  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MEASUREMENTS = ROOT / "docs" / "measurements"
FIGURES = ROOT / "docs" / "figures"


def save(figure: plt.Figure, name: str) -> None:
    FIGURES.mkdir(exist_ok=True)
    # Without a date and with fixed ids the same data gives the same file.
    figure.savefig(FIGURES / name, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def draw_conversions() -> None:
    seeds = json.loads((MEASUREMENTS / "models.json").read_text())["seeds"]
    figure, axes = plt.subplots(figsize=(7, 4))
    for color, key in enumerate(name for name in TITLES if name in seeds):
        for index, run in enumerate(seeds[key]):
            looks = [look for look in run["evaluations"] if look["stage"] != "start"]
            axes.plot([look["minutes"] for look in looks], [look["divergence"] for look in looks], color=f"C{color}", marker=".",
                      markersize=4, linewidth=1, alpha=0.8, label=TITLES[key] if index == 0 else None)
    axes.set_yscale("log")
    axes.set_xlabel("minutes (2 cores)")
    axes.set_ylabel("KL from the softmax model, held-out pictures")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2)
    save(figure, "conversion.svg")


def draw_from_scratch() -> None:
    figure, (loss_axes, top1_axes) = plt.subplots(1, 2, figsize=(9, 3.5))
    for color, file in enumerate(sorted((MEASUREMENTS / "from_scratch").glob("*.jsonl"))):
        rows = [row for row in map(json.loads, file.read_text().splitlines()) if "train_loss" in row]
        epochs = [row["epoch"] + 1 for row in rows]
        loss_axes.plot(epochs, [row["train_loss"] for row in rows], color=f"C{color}", label=f"{file.stem}, learned from")
        loss_axes.plot(epochs, [row["eval_loss"] for row in rows], color=f"C{color}", linestyle="--",
                       label=f"{file.stem}, validation")
        top1_axes.plot(epochs, [row["eval_top1"] for row in rows], color=f"C{color}", label=file.stem)
    loss_axes.set_ylabel("loss")
    top1_axes.set_ylabel("top-1 of the validation pictures, %")
    for axes in (loss_axes, top1_axes):
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(True, alpha=0.25)
        axes.legend(fontsize=8)
    save(figure, "from_scratch.svg")


if __name__ == "__main__":
    plt.rcParams.update({"svg.hashsalt": "hydrascope", "svg.fonttype": "none"})
    draw_conversions()
    if (MEASUREMENTS / "from_scratch").is_dir():
        draw_from_scratch()
