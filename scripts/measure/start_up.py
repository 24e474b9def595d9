#!/usr/bin/env python3
"""How long the program takes to begin: from exec to exit, medians of many runs.

    python scripts/measure/start_up.py [--program build/release/hydrascope] [--against FILE]
        [--picture FILE] [--rounds 15] [--options "--precision float32"]

Measures the commands that need no model, `classify` of one picture with the bundled model, and the same
beside a process that spins. With --against the runs of two programs take turns, so that what else the machine
does weighs on both alike. Wall time counts, and processor time tells what a busy machine would add; for the
targets nothing else may run. Needs Python alone.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from program import PROGRAM, ROOT, Command, Run, take_turns

QUICK = {
    "help": ["help"],
    "version": ["version"],
    "completion": ["completion", "bash"],
    "wrong option": ["classify", "--img-sise", "3", "x.jpg"],
}
TARGETS = {"help": 0.05, "version": 0.05, "completion": 0.05, "wrong option": 0.05, "classify": 0.35}
MOST_BESIDE_A_NEIGHBOUR = 1.5


def wall(runs: list[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


def line(name: str, runs: list[Run], judgement: str, met: bool) -> str:
    cpu = statistics.median(run.cpu_seconds for run in runs)
    return f"{name:34}{1e3 * wall(runs):9.0f}{1e3 * cpu:9.0f}   {judgement} {'met' if met else 'missed'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--against", type=Path, help="another build of the program")
    parser.add_argument("--picture", type=Path, default=ROOT / "assets/images/oakland-zoo-otters.jpg")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--options", default="", help="further options of classify")
    arguments = parser.parse_args()

    programs = {"A": arguments.program} | ({"B": arguments.against} if arguments.against else {})
    classify = {"classify": ["classify", "--quiet", *shlex.split(arguments.options), arguments.picture]}
    print(f"{len(os.sched_getaffinity(0))} processors, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f} before")
    for program in programs.values():
        if not program.exists():
            sys.exit(f"{program} is not there")

    def all_programs(words: dict[str, Command]) -> dict[tuple[str, str], list[Run]]:
        """By the command and the program's letter."""
        named = {(name, letter): [program.resolve(), *rest] for name, rest in words.items() for letter, program in programs.items()}
        return take_turns(named, arguments.rounds, codes=(0, 2))

    alone = all_programs(QUICK | classify)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:
        beside = all_programs(classify)
        neighbour.kill()

    print(f"{'command':34}{'wall ms':>9}{'CPU ms':>9}   target")
    verdicts = []
    for (command, letter), runs in alone.items():
        fits = wall(runs) <= TARGETS[command]
        verdicts.append(fits or letter != "A")
        name = f"{command} {letter}" if len(programs) > 1 else command
        print(line(name, runs, f"{1e3 * TARGETS[command]:.0f} ms", fits))
    for (command, letter), runs in beside.items():
        ratio = wall(runs) / wall(alone[command, letter])
        fits = ratio <= MOST_BESIDE_A_NEIGHBOUR
        verdicts.append(fits or letter != "A")
        name = f"{command} {letter}" if len(programs) > 1 else command
        print(line(f"{name}, beside a neighbour", runs, f"{ratio:.2f} times alone, {MOST_BESIDE_A_NEIGHBOUR}", fits))
    sys.exit(0 if all(verdicts) else 1)


if __name__ == "__main__":
    main()
