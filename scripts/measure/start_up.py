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
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURE = REPOSITORY / "assets/images/oakland-zoo-otters.jpg"
QUICK = {
    "help": ["help"],
    "version": ["version"],
    "completion": ["completion", "bash"],
    "wrong option": ["classify", "--img-sise", "3", "x.jpg"],
}
TARGETS = {"help": 0.05, "version": 0.05, "completion": 0.05, "wrong option": 0.05, "classify": 0.35}
MOST_BESIDE_A_NEIGHBOUR = 1.5


def run_once(command: list[str]) -> tuple[float, float]:
    """Seconds of wall and of processor time."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 2):
        sys.exit(f"{shlex.join(command)} ended with {child.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def medians(commands: dict[str, list[str]], rounds: int) -> dict[str, tuple[float, float]]:
    """Of every command, which take turns; the first round, which fetches files, does not count."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            seconds = run_once(command)
            if number > 0:
                taken[name].append(seconds)
    return {
        name: (statistics.median(wall for wall, _ in runs), statistics.median(cpu for _, cpu in runs))
        for name, runs in taken.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", type=Path, default=REPOSITORY / "build/release/hydrascope")
    parser.add_argument("--against", type=Path, help="another build of the program")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--options", default="", help="further options of classify")
    arguments = parser.parse_args()

    programs = [arguments.program] + ([arguments.against] if arguments.against else [])
    classify = ["classify", "--quiet", *shlex.split(arguments.options), str(arguments.picture)]
    processors = len(os.sched_getaffinity(0))
    print(f"{processors} processors, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f} before")
    for program in programs:
        if not program.exists():
            sys.exit(f"{program} is not there")

    def both(words: dict[str, list[str]]) -> dict[str, tuple[float, float]]:
        named = {
            f"{name} {'AB'[i]}": [str(program.resolve()), *line]
            for name, line in words.items()
            for i, program in enumerate(programs)
        }
        return medians(named, arguments.rounds)

    alone = both(QUICK | {"classify": classify})
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:
        beside = both({"classify": classify})
        neighbour.kill()

    print(f"{'command':34}{'wall ms':>9}{'CPU ms':>9}   target")
    met = True
    for name, (wall, cpu) in alone.items():
        command, letter = name.rsplit(" ", 1)
        target = TARGETS[command]
        fits = wall <= target
        met = met and (fits or letter != "A")
        print(f"{name if len(programs) > 1 else command:34}{1e3 * wall:9.0f}{1e3 * cpu:9.0f}   "
              f"{1e3 * target:.0f} ms {'met' if fits else 'missed'}")
    for name, (wall, cpu) in beside.items():
        ratio = wall / alone[name][0]
        fits = ratio <= MOST_BESIDE_A_NEIGHBOUR
        met = met and (fits or not name.endswith("A"))
        shown = name if len(programs) > 1 else "classify"
        print(f"{shown + ', beside a neighbour':34}{1e3 * wall:9.0f}{1e3 * cpu:9.0f}   "
              f"{ratio:.2f} times alone, {MOST_BESIDE_A_NEIGHBOUR} {'met' if fits else 'missed'}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
