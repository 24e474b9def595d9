"""Kills commands, and lets their disks fail, at every change that they make of their files.

    fault_sweep.py PROGRAM SHIM [--case NAME] [--kind KIND] [--points N] [--random N] [--jobs N] [--report FILE.json]

SHIM is the library of fault_injection.cpp, which says what a change is and which kinds of faults there are. Each command runs
undisturbed first; then for every one of its changes and every kind of fault it starts in a fresh folder, over what an earlier run has left
there, meets that fault, and is started once more as its user would. What has to hold:

- a file of the earlier run is there as it was, or is the whole new one, even behind a kill;
- a command whose disk failed ends with an error of one line, with one record that says so, or has done all of its work;
- the second start ends with 0 and in the bytes of the undisturbed run;
- no hidden file is left by then.

A disk is read-only from the first change on, or not at all.
--points takes that many changes of each command, evenly; without it all but the inner ones of many writes to one file in a row.
--random kills each command that many times at moments drawn over its whole time instead, every second time also the run behind the first
kill, and asks the same of what comes then.
Prints a line for each finding, and at the end how much was tried; ends with 1 if there is a finding.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TINY = SOURCE / "tests/corpus/states/0.1/tiny"
KINDS = ("kill", "full", "readonly", "error", "short")
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", NO_COLOR="1")
TIMES = re.compile(r'"(?:seconds|time|images_per_second|wall_time|ms|elapsed)":\s*[-+0-9.e]+|"file":\[[0-9,]+\]')


def write_pictures(folder):
    """Eight of two classes, to learn from and to look at, and the names of the classes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "classes.txt").write_text("a\nb\n")
    for number in range(8):
        path = folder / "set" / "ab"[number % 2] / f"{number}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = bytes((x * 5 + y * 3 + number * 37 + channel * 11) % 256 for y in range(32) for x in range(40) for channel in range(3))
        path.write_bytes(b"P6\n40 32\n255\n" + pixels)


class Case:
    """A command, what an earlier run left, and which files are its results."""

    def __init__(self, name, arguments, again=(), before=(), results=("*",), partial=()):
        self.name = name
        self.arguments = list(arguments)
        self.again = self.arguments + list(again)
        self.before = before  # arguments of the earlier run, if there is one
        self.results = results
        self.partial = partial  # results that hold less where some inputs failed, which exit code 3 says


LEARN = ["--batch-size", "2", "--threads", "1", "--set", "workers=1", "--device", "cpu", "--set", "seed=1", "--resume", "auto"]
LOOK = ["--threads", "1", "--device", "cpu", "--precision", "float32"]
CASES = [
    Case("train", ["train", "set", "-m", "../tiny", "--labels", "classes.txt", "-o", "out/run", "--epochs", "3", "--held-out", "2", *LEARN],
         results=("run/step-*[0-9].safetensors", "run/best.safetensors", "run/last.safetensors")),
    Case("convert", ["convert", "-m", "../tiny", "--attn", "hedgehog", "-i", "set", "-o", "out/new.safetensors", "--held-out", "2",
                     "--set", "maps.batch-size=2", "--set", "steps-maps=2", "--set", "steps-outputs=2", "--epochs", "2", "--set", "last.evaluations=2", *LEARN],
         results=("new.safetensors", "new.safetensors.training/best.safetensors", "new.safetensors.training/last.safetensors")),
    Case("rewrite", ["convert", "../tiny", "out/model.safetensors", "--dtype", "float16", "--force"],
         before=["convert", "../tiny", "out/model.safetensors"]),
    Case("classify", ["classify", "set", "--recursive", "-m", "../tiny", "--format", "jsonl", "-o", "out/records.jsonl", *LOOK],
         again=["--resume"]),
    Case("classify anew", ["classify", "set", "--recursive", "-m", "../tiny", "--format", "json", "-o", "out/records.json", *LOOK],
         before=["classify", "set", "--recursive", "-m", "../tiny", "--attn", "hydra", "--format", "json", "-o", "out/records.json", *LOOK]),
    Case("evaluate", ["evaluate", "set", "--class-map", "classes.txt", "-m", "../tiny", "--format", "json", "-o", "out/result.json", "--save-logits", "out/logits.npy", *LOOK],
         before=["evaluate", "set", "--class-map", "classes.txt", "-m", "../tiny", "--attn", "hydra", "--format", "json", "-o", "out/result.json",
                 "--save-logits", "out/logits.npy", *LOOK]),
    Case("visualize", ["visualize", "set", "--recursive", "-m", "../tiny", "-o", "out", "--html", "out/page.html", "--save-raw", *LOOK],
         before=["visualize", "set", "--recursive", "-m", "../tiny", "--attn", "hydra", "-o", "out", "--html", "out/page.html", "--save-raw", *LOOK], partial=["page.html"]),
]


class Sweep:
    def __init__(self, program, shim, folder):
        self.program, self.shim, self.folder = program, shim, folder
        shutil.copytree(TINY, folder / "tiny")

    def start(self, folder, arguments, **fault):
        environment = dict(ENVIRONMENT)
        if fault:
            count = folder / "count"
            count.write_bytes(bytes(4096))
            environment.update(LD_PRELOAD=str(self.shim), FAULT_FOLDER=str(folder / "out"), FAULT_COUNT=str(count),
                               **{f"FAULT_{key.upper()}": str(value) for key, value in fault.items()})
        return subprocess.run([self.program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, errors="replace",
                              timeout=240, check=False)

    def fresh(self, case, name):
        folder = self.folder / f"{case.name}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        if case.before and (self.folder / f"{case.name}-before").exists():
            shutil.copytree(self.folder / f"{case.name}-before", folder)
        else:
            (folder / "out").mkdir(parents=True)
            write_pictures(folder)
        return folder

    def prepare(self, case):
        """Runs it undisturbed. Returns its changes, what was there before, and what is there at the end."""
        before = {}
        if case.before:
            folder = self.fresh(case, "before")
            outcome = self.start(folder, case.before)
            assert outcome.returncode == 0, f"{case.name}, the earlier run: {outcome.stderr}"
            before = files_of(folder / "out")
        folder = self.fresh(case, "whole")
        log = folder / "changes"
        outcome = self.start(folder, case.arguments, at=0, log=log)
        assert outcome.returncode == 0, f"{case.name}: {outcome.stderr}"
        changes = log.read_text().splitlines()
        assert changes, f"{case.name} changes nothing: is the shim loaded?"
        return changes, before, files_of(folder / "out")

    def try_point(self, case, kind, point, before, whole):
        """Returns what is wrong, or None, and whether the fault was met."""
        folder = self.fresh(case, f"{kind}-{point}")
        outcome = self.start(folder, case.arguments, kind=kind, at=point)
        hit = (folder / "count").read_bytes()[8:].split(b"\0")[0].decode(errors="replace")
        results = results_of(case, whole)
        files = files_of(folder / "out")
        partial = case.partial if outcome.returncode == 3 else ()
        wrong = wrong_of_before({path: text for path, text in before.items() if path not in partial}, files, whole)
        lines = outcome.stderr.strip().splitlines()
        if kind == "kill" and outcome.returncode not in (-9, 137) and hit:
            wrong = wrong or f"ended with {outcome.returncode} although it was killed"
        elif kind != "kill" and outcome.returncode == 0:
            missing = [path for path in results if files.get(path) != whole[path]]
            if missing:
                wrong = wrong or f"ended with 0, but {missing[0]} is {'missing' if missing[0] not in files else 'another one'}"
        elif kind == "short":
            wrong = wrong or f"ended with {outcome.returncode}: {lines[-1:]}"
        elif kind != "kill" and outcome.returncode == 3 and outcome.stdout.count("  error: ") == 1:
            pass  # the record of an input that could not be written
        elif kind != "kill" and (outcome.returncode < 0 or sum(line.startswith("error: ") for line in lines) != 1):
            wrong = wrong or f"ended with {outcome.returncode} and says {lines}"
        wrong = wrong or self.wrong_at_last(folder, case, whole)
        shutil.rmtree(folder, ignore_errors=True)
        return wrong, hit

    def wrong_at_last(self, folder, case, whole):
        """Starts the run that goes on, and says what is wrong then."""
        outcome = self.start(folder, case.again)
        files = files_of(folder / "out")
        different = [path for path in results_of(case, whole) if files.get(path) != whole[path]]
        hidden = [path for path in files if pathlib.PurePath(path).name.startswith(".")]
        if outcome.returncode != 0:
            return f"the next run ended with {outcome.returncode}: {outcome.stderr.strip().splitlines()[-2:]}"
        if different:
            return f"behind the next run {different[0]} is {'missing' if different[0] not in files else 'another one'}"
        return f"the next run leaves {hidden[0]}" if hidden else None

    def seconds_of(self, case):
        """The seconds of the fastest of three undisturbed runs."""
        fastest = float("inf")
        for _ in range(3):
            folder = self.fresh(case, "time")
            begin = time.monotonic()
            self.start(folder, case.arguments)
            fastest = min(fastest, time.monotonic() - begin)
        return fastest

    def try_moment(self, case, number, moments, before, whole):
        """Kills it at `moments` (seconds behind its start, and then behind that of the run that goes on). The same result."""
        folder = self.fresh(case, f"moment-{number}")
        killed, wrong = [], None
        for arguments, seconds in zip((case.arguments, case.again), moments):
            with subprocess.Popen([self.program, *arguments], cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                try:
                    process.wait(seconds)
                except subprocess.TimeoutExpired:
                    process.kill()
                    killed.append(f"{seconds:.3f} s")
            wrong = wrong or wrong_of_before(before, files_of(folder / "out"), whole)
        wrong = wrong or self.wrong_at_last(folder, case, whole)
        shutil.rmtree(folder, ignore_errors=True)
        return wrong, ", ".join(killed)


def results_of(case, files):
    return [path for path in files if any(pathlib.PurePath(path).match(pattern) for pattern in case.results)]


def wrong_of_before(before, files, whole):
    """The files of the earlier run that are lost or half."""
    for path, text in before.items():
        if files.get(path) != text and files.get(path) != whole.get(path):
            return f"{path} of the earlier run is {'gone' if path not in files else 'neither as it was nor whole'}"
    return None


def files_of(folder):
    """Contents by path, without the times that some of them hold."""
    result = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix in (".jsonl", ".json", ".csv", ".html"):
                content = TIMES.sub("", content.decode(errors="replace")).encode()
            result[str(path.relative_to(folder))] = content
    return result


def points_of(changes, limit):
    """Numbers of changes to try, from 1."""
    if limit and limit < len(changes):
        return sorted({1 + round(i * (len(changes) - 1) / (limit - 1)) for i in range(limit)})
    chosen = []
    for number, change in enumerate(changes, 1):
        is_inner = change.startswith("write ") and 1 < number < len(changes) and changes[number - 2] == change == changes[number]
        if not is_inner or number % 8 == 0:
            chosen.append(number)
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("shim", type=pathlib.Path)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--report", type=pathlib.Path)
    arguments = parser.parse_args()
    findings, table = [], []
    with tempfile.TemporaryDirectory(prefix="fault_sweep.") as name:
        sweep = Sweep(arguments.program.resolve(), arguments.shim.resolve(), pathlib.Path(name).resolve())
        for case in CASES:
            if arguments.case and case.name not in arguments.case:
                continue
            changes, before, whole = sweep.prepare(case)
            if arguments.random:
                seconds, draw = sweep.seconds_of(case), random.Random(arguments.seed)
                tries = [("kill", [draw.uniform(0, seconds) for _ in range(1 + number % 2)]) for number in range(arguments.random)]
                attempt = sweep.try_moment
                calls = [(number, moments) for number, (_, moments) in enumerate(tries)]
            else:
                tries = [(kind, point) for kind in arguments.kind or KINDS for point in points_of(changes, arguments.points)
                         if (kind != "short" or changes[point - 1].startswith("write ")) and (kind != "readonly" or point == 1)]
                attempt, calls = sweep.try_point, tries
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                outcomes = list(pool.map(lambda call, case=case, attempt=attempt, before=before, whole=whole:
                                         attempt(case, *call, before, whole), calls))
            bad = 0
            for (kind, point), (wrong, hit) in zip(tries, outcomes):
                if wrong:
                    bad += 1
                    where = f"after {hit}" if arguments.random else f"at change {point} of {len(changes)} ({hit or changes[point - 1]})"
                    findings.append(f"{case.name}, {kind} {where}: {wrong}")
                    print(findings[-1].replace(str(sweep.folder), ""), flush=True)
            table.append({"command": case.name, "changes": len(changes), "tried": len(tries), "met": sum(bool(hit) for _, hit in outcomes),
                          "findings": bad})
            print("{command}: {changes} changes, {tried} faults tried, {met} met, {findings} findings".format(**table[-1]), flush=True)
    print(f"{sum(row['tried'] for row in table)} faults tried, {len(findings)} findings")
    if arguments.report:
        arguments.report.write_text(json.dumps(table, indent=1) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
