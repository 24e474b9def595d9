#!/usr/bin/env python3
"""What heatmaps cost beside classification: `visualize` against `classify` on the same pictures, in turns.

  visualize_cost.py [--program FILE] [--rounds 5] PICTURE... -- OPTION...     options of both, such as --native --attn hydra
  visualize_cost.py ... --maps "--method hydra"                               options of visualize alone

Prints the median wall time of both, the median of the rounds' ratios with their range, and the peak resident memory of both.
Only Python's standard library is needed. Measure on a machine that does nothing else.
"""
import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time


def run(command):
    """Wall seconds and peak resident bytes of one process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{shlex.join(command)} failed:\n{complaint.decode(errors='replace')}")
    return seconds, usage.ru_maxrss * 1024


def main():
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/hydrascope")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--maps", default="", help="options of visualize alone")
    parser.add_argument("pictures", nargs="+")
    arguments = parser.parse_args(words[:split])
    shared = ["--precision", "float32", *words[split + 1:], "-q", "--no-progress"]  # the last one of an option counts

    times = {"classify": [], "visualize": []}
    memory = {"classify": [], "visualize": []}
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "classify": [arguments.program, "classify", *shared, *arguments.pictures],
            "visualize": [arguments.program, "visualize", *shared, *shlex.split(arguments.maps), "-o", folder, *arguments.pictures],
        }
        for command in commands.values():  # files and pages in memory
            run(command)
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                seconds, peak = run(command)
                times[name].append(seconds)
                memory[name].append(peak)
    ratios = [v / c for v, c in zip(times["visualize"], times["classify"])]
    for name in times:
        print(f"{name:9}  {statistics.median(times[name]):7.3f} s  peak {max(memory[name]) / 1e6:6.0f} MB")
    added = statistics.median(memory["visualize"]) - statistics.median(memory["classify"])
    print(f"ratio      {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {arguments.rounds} rounds)"
          f"  added memory {added / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
