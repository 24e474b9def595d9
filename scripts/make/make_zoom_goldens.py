"""Makes tests/data/zoom.json: what the prototype in docs/notes/zoom finds and answers for maps and logits by formula.

    python -m venv venv && venv/bin/pip install numpy
    venv/bin/python scripts/make/make_zoom_goldens.py

tests/model/zoom/zoom_test.cpp has the same formulas.
"""
import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "notes" / "zoom"))
from cands import candidates  # noqa: E402
from feats import mix  # noqa: E402

# Rows and columns of cells, then spots: row, column, breadth, height; all in cells.
CASES = {
    "1088x1920": (68, 120, [(20.3, 61.7, 5, 1), (50.2, 20.1, 2.5, 0.6), (8, 100, 3, 0.08)]),
    "tall": (43, 17, [(30.6, 4.2, 3, 1)]),
}
CLASSES = 7


def attention_map(rows, columns, spots):
    row, column = np.mgrid[0:rows, 0:columns].astype(float)
    m = 0.02 * (1 + 0.5 * np.sin(1.3 * row + 0.1 * row * column))
    for r, c, breadth, height in spots:
        m += height * np.exp(-((row - r) ** 2 + (column - c) ** 2) / (2 * breadth ** 2))
    return m / m.sum()


def logits_of(number):
    return 4 + 4 * np.sin(1.7 * number + 2.9 * np.arange(CLASSES) + 0.31 * number * np.arange(CLASSES))


def golden(rows, columns, spots):
    m = attention_map(rows, columns, spots)
    size = (16 * columns, 16 * rows)
    views = candidates({"size": size}, m)
    # As the program has them.
    logits = np.stack([logits_of(1 + i) for i in range(len(views))]).astype("f4").astype(float)
    weights, probabilities = mix(size, m, views, logits)
    boxes = lambda areas: [[round(float(v), 4) for v in area] for area in areas]
    return {"rows": rows, "columns": columns, "spots": spots,
            "views": boxes(view[2] for view in views), "weights": [round(float(w), 7) for w in weights],
            "probabilities": [round(float(p), 7) for p in probabilities]}


if __name__ == "__main__":
    text = json.dumps({name: golden(*case) for name, case in CASES.items()})
    (ROOT / "tests" / "data" / "zoom.json").write_text(text.replace('], "', '],\n "').replace('"tall"', '\n"tall"') + "\n")
