#!/usr/bin/env python3
"""The cost of heatmaps beside classification: `visualize` against `classify` on the same pictures, in turns.

  visualize_cost.py [--program FILE] [--rounds 5] PICTURE... -- OPTION...     options of both, such as --native --attn hydra
  visualize_cost.py ... --maps "--method hydra"                               options of visualize alone

Prints the median wall time of both, the median of the rounds' ratios with their range, and the peak resident memory of both.
Only Python's standard library is needed. Measure on a machine that does nothing else.
"""

import argparse
import shlex
import statistics
import sys
import tempfile

from program import PROGRAM, take_turns


def main() -> None:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--maps", default="", help="options of visualize alone")
    parser.add_argument("pictures", nargs="+")
    arguments = parser.parse_args(words[:split])
    shared = ["--precision", "float32", *words[split + 1:], "-q", "--no-progress"]  # the last one of an option counts

    with tempfile.TemporaryDirectory() as folder:
        taken = take_turns({
            "classify": [arguments.program, "classify", *shared, *arguments.pictures],
            "visualize": [arguments.program, "visualize", *shared, *shlex.split(arguments.maps), "-o", folder, *arguments.pictures],
        }, arguments.rounds)
    for name, runs in taken.items():
        print(f"{name:9}  {statistics.median(run.seconds for run in runs):7.3f} s  peak {max(run.peak_bytes for run in runs) / 1e6:6.0f} MB")
    ratios = [maps.seconds / plain.seconds for plain, maps in zip(taken["classify"], taken["visualize"])]
    plain, maps = (statistics.median(run.peak_bytes for run in runs) for runs in taken.values())
    print(f"ratio      {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {arguments.rounds} rounds)"
          f"  added memory {(maps - plain) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
