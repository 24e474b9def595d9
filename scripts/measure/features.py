"""How near the features of converted models are to their teacher's: a table, and docs/measurements/FILE.

    python scripts/measure/features.py PICTURES TEACHER NAME=WORDS... [--reports NAME=FILE...] [--sizes 224 512 1088] [--limit N] [-o FILE]

NAME=WORDS is a model as `hydrascope embed` takes it: 'hydra, nothing learned=-m softmax.safetensors --attn hydra:last2'. Every model and the
teacher embed N pictures of PICTURES, evenly spread, at every size, in float32. A row has the mean cosines of the pooled vectors and of the
patch tokens with two answers of the teacher: at the same size, and at its own size, whose patches are compared with the means of the
patches that they cover. --reports adds the looks and the loss of a conversion's report to the JSON. Needs numpy.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from pathlib import Path

import numpy as np

from program import PROGRAM, ROOT, Json, machine, run, table

OWN = 224


def pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected NAME=..., found {text}")
    return name, value


def embedded(words: list[str], pictures: Path, size: int, features: str, folder: Path, count: int) -> np.ndarray:
    """(pictures, rows, D)."""
    file = folder / "features.safetensors"
    run([PROGRAM, "embed", f"@{pictures}", *words, "--img-size", size, "--features", features, "--precision", "float32", "-o", file, "-q"])
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    entry = json.loads(content[8:begin])["vectors"]
    first, last = entry["data_offsets"]
    return np.frombuffer(content[begin + first:begin + last], np.float32).reshape(count, -1, entry["shape"][-1])


def averaged(patches: np.ndarray, edge: int) -> np.ndarray:
    """Square grids of patches (pictures, N, D) as means over cells (pictures, edge * edge, D)."""
    length = round(patches.shape[1] ** 0.5)
    if length == edge:
        return patches
    # The cells of torch's adaptive pooling, as in the conversion itself.
    share = np.zeros((edge, length))
    for cell in range(edge):
        begin, end = cell * length // edge, -(-(cell + 1) * length // edge)
        share[cell, begin:end] = 1 / (end - begin)
    grid = patches.reshape(-1, length, length, patches.shape[-1])
    return np.einsum("ar,bc,prcd->pabd", share, share, grid, optimize=True).reshape(len(patches), edge * edge, -1)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The mean over all vectors."""
    return float(((a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))).mean())


def rows_of(models: list[tuple[str, str]], teacher: str, pictures: list[Path], sizes: list[int]) -> list[Json]:
    rows: list[Json] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = folder / "pictures.txt"
        names.write_text("".join(f"{picture}\n" for picture in pictures))

        def both(words: list[str], size: int) -> tuple[np.ndarray, np.ndarray]:
            of = [embedded(words, names, size, features, folder, len(pictures)) for features in ("pooled", "patches")]
            return of[0], of[1]

        own = both(["-m", teacher], OWN)
        edge = round(own[1].shape[1] ** 0.5)
        for size in sizes:
            same = own if size == OWN else both(["-m", teacher], size)
            for name, words in [("teacher", f"-m {shlex.quote(teacher)}"), *models]:
                pooled, patches = same if name == "teacher" else both(shlex.split(words), size)
                rows.append({"model": name, "size": size, "pooled_same_size": cosine(pooled, same[0]), "patches_same_size": cosine(patches, same[1]),
                             "pooled_own_size": cosine(pooled, own[0]), "patches_own_size": cosine(averaged(patches, edge), own[1])})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("teacher")
    parser.add_argument("models", type=pair, nargs="*")
    parser.add_argument("--reports", type=pair, nargs="*", default=[])
    parser.add_argument("--sizes", type=int, nargs="*", default=[224, 512, 1088])
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "measurements" / "features.json")
    chosen = parser.parse_args()
    pictures = sorted(path.resolve() for path in chosen.pictures.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    pictures = [pictures[i * len(pictures) // chosen.limit] for i in range(chosen.limit)] if chosen.limit < len(pictures) else pictures
    keep = ["attention", "attention_options", "pooled_cosine_before", "pooled_cosine", "patch_cosine_before", "patch_cosine", "best_state",
            "held_out_images", "eval_top1", "eval_pooled_cosine", "eval_patch_cosine", "eval_images", "minutes", "complete", "plan",
            "computed", "stages", "evaluations", "losses", "recipe"]
    reports = {name: {key: value for key, value in json.loads(Path(file).read_text()).items() if key in keep} for name, file in chosen.reports}
    result = {"machine": machine(), "version": run([PROGRAM, "version"]).output.splitlines()[0], "pictures": len(pictures),
              "rows": rows_of(chosen.models, chosen.teacher, pictures, chosen.sizes), "conversions": reports}
    chosen.output.write_text(json.dumps(result, indent=1) + "\n")
    head = ["model", "size", "pooled, same size", "patches, same size", "pooled, 224", "patches, 224"]
    print(table(head, [[row["model"], str(row["size"]), *(f"{row[key]:.4f}" for key in list(row)[2:])] for row in result["rows"]]))


if __name__ == "__main__":
    main()
