"""Speed against difference of a model whose pictures may leave early.

    python scripts/measure/early_exit.py MODEL PICTURES... [--thresholds 1,0.9,0.6] [--precision float32] [-o FILE.json]

Classifies the pictures with each threshold in turns, some rounds of each; threshold 1 is the whole model. A row has the
rate of the model alone (the records' seconds, of the round with the median rate), the share of pictures whose top-1 is
another one than the whole model's, with its exact upper bound at 95 % confidence (Clopper and Pearson 1934), and where
pictures left. PICTURES are folders, files or @lists. Standard library only.
"""

import argparse
import json
import math
import statistics
from collections import Counter
from pathlib import Path

from program import PROGRAM, Json, run, table


def binomial_tail(n: int, p: float, k: int) -> float:
    """P(X <= k)."""
    return sum(math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p))
               for i in range(k + 1))


def upper_bound(n: int, k: int, confidence: float = 0.95) -> float:
    """The largest share at which k or fewer of n are not too unlikely."""
    low, high = k / n, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < 1 and binomial_tail(n, middle, k) > 1 - confidence else (low, middle)
    return high


def classify(arguments: argparse.Namespace, threshold: str) -> list[Json]:
    said = run([arguments.hydrascope, "classify", *arguments.pictures, "--recursive", "-m", arguments.model, "--format", "jsonl",
                "--topk", 1, "--device", "cpu", "--precision", arguments.precision, "--batch-size", arguments.batch_size,
                "--threads", arguments.threads, "--workers", 1, "--views", "whole", "--exit-threshold", threshold, *(["--coarse-exits", arguments.coarse_exits] if arguments.coarse_exits else []),
                *(["--exit-rule", arguments.rule] if arguments.rule else []),
                *(["--img-size", arguments.img_size] if arguments.img_size else [])])
    return [json.loads(line) for line in said.output.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("pictures", nargs="+")
    parser.add_argument("--thresholds", default="1,0.95,0.9,0.8,0.7,0.6,0.5,0.4,0.3")
    parser.add_argument("--rule")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--coarse-exits")
    parser.add_argument("--img-size")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hydrascope", default=PROGRAM)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    thresholds = arguments.thresholds.split(",")
    if "1" not in thresholds:
        parser.error("--thresholds need 1, the whole model")
    rounds = [{threshold: classify(arguments, threshold) for threshold in thresholds} for _ in range(arguments.rounds)]
    whole = [record["top"][0]["index"] for record in rounds[0]["1"]]
    rows: list[Json] = []
    for threshold in thresholds:
        records = rounds[0][threshold]
        differing = sum(record["top"][0]["index"] != index for record, index in zip(records, whole, strict=True))
        layers = Counter(record.get("exit_layer", "last") for record in records)
        rates = [len(one[threshold]) / sum(record["seconds"] for record in one[threshold]) for one in rounds]
        rows.append({"threshold": float(threshold), "images": len(records), "images_per_second": statistics.median(rates),
                     "rates": rates, "differing": differing, "differing_share": differing / len(records),
                     "differing_at_most": upper_bound(len(records), differing), "layers": dict(layers)})
    base = next(row for row in rows if row["threshold"] == 1)["images_per_second"]
    for row in rows:
        row["speed"] = row["images_per_second"] / base
    print(table(["threshold", "images/s", "times", "differ", "at most (95 %)", "left behind layer"],
                [[f"{row['threshold']:g}", f"{row['images_per_second']:.1f}", f"{row['speed']:.2f}", f"{row['differing_share']:.1%}",
                  f"{row['differing_at_most']:.1%}", ", ".join(f"{layer}: {count}" for layer, count in sorted(row["layers"].items(), key=str))]
                 for row in rows]))
    if arguments.output:
        kept = {name: value for name, value in vars(arguments).items() if name not in ("output", "hydrascope", "model", "pictures")}
        arguments.output.write_text(json.dumps({"model": Path(arguments.model).name, "pictures": [Path(one).name for one in arguments.pictures],
                                                **kept, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
