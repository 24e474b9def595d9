"""Draws the curves of docs/results.md and docs/notes/from_scratch.md from docs/measurements.

    python scripts/measure/training_curves.py

docs/figures/conversion.svg: KL divergence from the softmax model on the held-out pictures over minutes, every run of conversions.csv.
docs/figures/from_scratch.svg: loss and top-1 over the epochs of from_scratch.csv, lines of `hydrascope train`'s metrics.jsonl. Needs
matplotlib.
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

DOCS = Path(__file__).resolve().parents[2] / "docs"


def rows_by_attention(name: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    with (DOCS / "measurements" / name).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["attention"], []).append(row)
    return found


def save(figure: plt.Figure, name: str) -> None:
    # Without a date and with fixed ids the same data gives the same file.
    figure.savefig(DOCS / "figures" / name, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def draw_conversions() -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    for color, (title, runs) in enumerate(rows_by_attention("conversions.csv").items()):
        for index, run in enumerate(runs):
            looks = [tuple(map(float, look.split(":"))) for look in run["divergence_over_minutes"].split()]
            axes.plot(*zip(*looks), color=f"C{color}", marker=".", markersize=4, linewidth=1, alpha=0.8,
                      label=title if index == 0 else None)
    axes.set_yscale("log")
    axes.set_xlabel("minutes (2 cores)")
    axes.set_ylabel("KL from the softmax model, held-out pictures")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2)
    save(figure, "conversion.svg")


def draw_from_scratch() -> None:
    figure, (loss_axes, top1_axes) = plt.subplots(1, 2, figsize=(9, 3.5))
    for color, (attention, rows) in enumerate(rows_by_attention("from_scratch.csv").items()):
        values = {name: [float(row[name]) for row in rows] for name in ("epoch", "train_loss", "eval_loss", "eval_top1")}
        epochs = [epoch + 1 for epoch in values["epoch"]]
        loss_axes.plot(epochs, values["train_loss"], color=f"C{color}", label=f"{attention}, learned from")
        loss_axes.plot(epochs, values["eval_loss"], color=f"C{color}", linestyle="--", label=f"{attention}, validation")
        top1_axes.plot(epochs, values["eval_top1"], color=f"C{color}", label=attention)
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
    draw_from_scratch()
