"""Puts mistakes into a copy of the source and counts those that the tests notice.

    python3 tests/mutation/mutation_test.py FOLDER [--only NUMBER ...] [--jobs N] [--report FILE]

All of `mutants.py` are compiled into one build in FOLDER, a copy of the checkout, and the environment chooses one of
them: what compiles once runs for each. Programs of tests run one after the other, that of the mutant's room first, and
the first test that fails ends a mutant. Without a mutant all of them must pass.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIABLE = "HYDRASCOPE_MUTANT"
HEADER = f"""#pragma once
#include <cstdlib>
inline const int mutant_number = [] {{
  const char* text = std::getenv("{VARIABLE}");
  return text == nullptr ? 0 : std::atoi(text);
}}();
"""
PROGRAMS = ["kernel_tests", "unit_tests", "attention_tests", "model_tests", "explain_tests", "training_tests", "viz_tests"]
LIMIT_SECONDS = 900


def copy_source(folder: pathlib.Path) -> pathlib.Path:
    """The checkout's files, with all mutants in them. Files that are as they were keep their times: no compiler runs."""
    source = folder
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout.split(b"\0")
    texts = {}
    for number, (name, old, new) in enumerate(MUTANTS, start=1):
        text = texts.setdefault(name, (ROOT / name).read_text())
        if text.count(old) != 1:
            sys.exit(f"mutant {number}: {name} holds {text.count(old)} times: {old}")
        texts[name] = text.replace(old, new.replace("@", f"(mutant_number == {number})"))
    for raw in filter(None, names):
        name = os.fsdecode(raw)
        data = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if name in texts:
            data = b'#include "mutant.h"\n' + texts[name].encode()
        write(source / name, data)
        if data:
            shutil.copymode(ROOT / name, source / name)
    write(source / "mutant.h", HEADER.encode())
    return source


def write(path: pathlib.Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def failed_test(program: pathlib.Path, number: int) -> str | None:
    """The first test that fails, or what else ended the program; None where all pass."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", **{VARIABLE: str(number)})
    command = [program, "--gtest_fail_fast", "--gtest_brief=1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"{program.name}: no end in {LIMIT_SECONDS} s"
    if done.returncode == 0:
        return None
    found = re.search(r"\[  FAILED  \] (\S+?),? ", done.stdout + " ")
    return found.group(1) if found else f"{program.name} ended with {done.returncode}"


def try_mutant(programs: dict[str, pathlib.Path], number: int) -> dict:
    name, old, new = MUTANTS[number - 1]
    own = {"kernels": "kernel_tests", "image": "unit_tests", "training": "training_tests", "explain": "explain_tests",
           "attention": "attention_tests"}
    room = "kernels" if name.startswith("kernels/") else name.split("/")[1]
    first = own.get(room, "model_tests")
    started = time.monotonic()
    noticed = None
    for program in sorted(programs, key=lambda each: each != first):
        noticed = failed_test(programs[program], number)
        if noticed:
            break
    return {"number": number, "file": name, "from": old, "to": new, "noticed_by": noticed,
            "seconds": round(time.monotonic() - started, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=int, nargs="+", default=range(1, len(MUTANTS) + 1))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    source = copy_source(options.folder.resolve())
    build = source / "build" / "release"
    environment = dict(os.environ, HYDRASCOPE_BUILD=str(build))
    subprocess.run([source / "scripts" / "build.sh", *PROGRAMS], check=True, env=environment)
    programs = {name: next(path for path in build.rglob(name) if path.is_file()) for name in PROGRAMS}

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, broken in zip(PROGRAMS, pool.map(lambda name: failed_test(programs[name], 0), PROGRAMS)):
            if broken:
                sys.exit(f"{name} fails without a mutant: {broken}")
        results = []
        for result in pool.map(lambda number: try_mutant(programs, number), options.only):
            results.append(result)
            print(f"{result['number']:3} {result['file']}: {result['noticed_by'] or 'NOT NOTICED: ' + result['to']}",
                  f"({result['seconds']} s)", flush=True)
    noticed = sum(result["noticed_by"] is not None for result in results)
    print(f"{noticed} of {len(results)} mutants noticed, {100 * noticed / len(results):.1f} %")
    if options.report:
        options.report.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if noticed >= 0.95 * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
