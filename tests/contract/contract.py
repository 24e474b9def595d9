"""Runs the contract of the command line: the cases beside this file, each in a folder of its own (README.md).

    contract.py PROGRAM [--jobs N] [--hostile LIBRARY] [--only WORD]... [FILE.case...]
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from values import ARITHMETIC, FILTERS, OPERATIONS, literals, near, npy, ppm, scene, spoiled, walk, without_head

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
SECONDS = 240  # of one command
VARIABLES = {"assets": SOURCE / "assets", "images": SOURCE / "assets/images", "models": SOURCE / "assets/models",
             "tests": SOURCE / "tests", "otters": SOURCE / "assets/images/oakland-zoo-otters.jpg"}  # fmt: skip


class Block:
    """A case, or a set of files for cases: its steps with their line numbers."""

    def __init__(self, file, line, name, base):
        self.place, self.name, self.base, self.steps = f"{file.name}:{line}", name, base, []


def read_blocks(file):
    """Cases and sets of a file; `for` is written out."""
    text = re.sub(r"\\\n\s*", lambda joined: "\0", file.read_text("utf-8"))
    lines, number = [], 1
    for line in text.split("\n"):
        lines.append((number, line.replace("\0", " ").strip()))
        number += 1 + line.count("\0")
    return gather(file, written_out([(n, line) for n, line in lines if line and not re.match(r"#( |$)", line)]))


def written_out(lines):
    result = []
    while lines:
        number, line = lines.pop(0)
        loop = re.match(r"for (\w+) in (.*)", line)
        if not loop:
            result.append((number, line))
            continue
        depth, body = 1, []
        while depth:
            body.append(lines.pop(0))
            depth += body[-1][1].startswith("for ") - (body[-1][1] == "end")
        for word in re.findall(r"'([^']*)'|(\S+)", loop[2]):
            result += written_out([(n, text.replace("{" + loop[1] + "}", "".join(word))) for n, text in body[:-1]])
    return result


def gather(file, lines):
    cases, sets = [], {}
    for number, line in lines:
        head = re.match(r"(case|set) (.*?)(?: : (\w+))?$", line)
        if not head:
            block.steps.append((number, line))
            continue
        block = Block(file, number, head[2], head[3])
        if head[1] == "case":
            cases.append(block)
        else:
            sets[head[2]] = block
    return cases, sets


class Failed(Exception):
    """The case cannot go on."""


class Skipped(Exception):
    """Why the case does not run here."""


class Ran:
    def __init__(self, line, code, out, err):
        self.line, self.code, self.out, self.err = line, code, out, err


class Runner:
    def __init__(self, program, hostile):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="contract-"))
        (self.folder / "bin").mkdir()
        (self.folder / "bin/hydrascope").symlink_to(pathlib.Path(program).resolve())
        self.program, self.hostile, self.lock, self.sets, self.made = program, hostile, threading.Lock(), {}, {}
        self.environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", hostile=str(hostile or ""))
        self.environment.setdefault("OMP_WAIT_POLICY", "passive")
        self.environment.update({name: str(value) for name, value in VARIABLES.items()})

    @functools.cached_property
    def facts(self):
        return json.loads(subprocess.run([self.program, "doctor", "--format", "json"], capture_output=True, check=True).stdout)

    def need(self, what):
        with self.lock:
            missing = {
                "opencv": lambda: not self.facts["decoder"].startswith("OpenCV") and "this build has no OpenCV",
                "no-gpu": lambda: self.facts["cuda_usable"] and "a GPU can be used here",
                "hostile": lambda: not self.hostile and "no library of hostile decoders",
                "user": lambda: os.geteuid() == 0 and "root may read everything",
            }.get(what, lambda: not shutil.which(what) and f"{what} is not installed")()
        if missing:
            raise Skipped(missing)

    def files_of(self, name):
        """The folder of a set, made once."""
        with self.lock:
            lock = self.made.setdefault(name, threading.Lock())
        with lock:
            folder = self.folder / "sets" / name
            if not folder.exists():
                case = Case(self, self.sets[name], folder)
                case.run()
                if case.failures:
                    raise Failed("\n".join(case.failures))
        return folder


class Case:
    def __init__(self, runner, block, folder):
        self.runner, self.block, self.folder, self.failures = runner, block, folder, []
        self.ran, self.named, self.seconds = None, {}, 0.0

    def run(self):
        if self.block.base:
            subprocess.run(["cp", "-a", self.runner.files_of(self.block.base), self.folder], check=True)
        else:
            self.folder.mkdir(parents=True)
        self.variables = dict(VARIABLES, here=self.folder)
        for self.number, line in self.block.steps:
            try:
                self.step(line)
            except Skipped:
                raise
            except Exception as error:  # noqa: BLE001 - a check that cannot be computed has failed
                is_end = isinstance(error, Failed)
                self.fail(str(error) if is_end else f"{line}\n  {type(error).__name__}: {error}")
                if is_end:
                    return

    def fail(self, text):
        shown = self.ran and f"\n  cd {self.folder} && {self.ran.line}\n  exit code {self.ran.code}, standard error:\n{self.ran.err[-1500:]}"
        self.failures.append(f"{self.block.place.split(':')[0]}:{self.number}: {text}{shown or ''}")

    def step(self, line):
        word, _, rest = line.partition(" ")
        words = rest.split()
        makers = {
            "ppm": lambda width, height, seed="0": ppm(int(width), int(height), int(seed)),
            "grey": lambda value: b"P6\n16 16\n255\n" + bytes(int(value) + i % 7 for i in range(768)),
            "scene": lambda: scene(npy(self.text("photo.npy"))["values"]),
            "headless": lambda source: without_head(self.text(source)),
            "spoil": lambda *where: spoiled(self.text(words[0]), *where),
        }
        if word == "needs":
            self.runner.need(rest)
        elif word == "write":
            self.write(words[0], rest.partition(" ")[2].encode())
        elif word in makers:
            self.write(words[0], makers[word](*words[1:]))
        elif word in ("$", "!"):
            self.command("hydrascope " + rest if word == "$" else rest, word == "$")
        elif word == "as":
            self.named[rest] = self.ran
        elif word in ("exists", "gone"):
            for name in words:
                if os.path.lexists(self.folder / name) != (word == "exists"):
                    self.fail(line)
        else:
            self.check(line)

    def write(self, name, data):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def expand(self, text):
        return re.sub(r"\$(\w+)", lambda found: str(self.variables.get(found[1], found[0])), text)

    def command(self, line, is_program):
        """Runs a line of the shell: `LINE => CODE "text on standard error" ...`."""
        line, _, expected = line.partition(" => ")
        code, _, texts = (expected.strip() or "0").partition(" ")
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(["sh", "-c", line], cwd=self.folder, env=self.runner.environment, stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=err, start_new_session=True)  # fmt: skip
            try:
                status = child.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                status = child.wait()
            out.seek(0), err.seek(0)
            texts_out = [stream.read().decode("utf-8", "surrogateescape") for stream in (out, err)]
        self.seconds += time.monotonic() - begin
        shown = self.expand(re.sub(r"\bhydrascope\b(?=\s)", str(self.runner.program), line, count=1))
        self.ran = Ran(shown, status if status >= 0 else 128 - status, *texts_out)
        missing = [text for text in literals(self.expand(texts)) if text not in self.ran.err]
        if str(self.ran.code) != code:
            raise Failed(f"expected exit code {code}")
        if missing:
            self.fail(f"expected on standard error: {missing}")
        # Wrong use is one line, and nothing but results comes on standard output.
        if is_program and code == "2" and (self.ran.out or len(re.findall(r"^error: ", self.ran.err, re.MULTILINE)) != 1):
            self.fail("expected one error, and nothing on standard output")

    # ---- checks

    def text(self, name):
        path = self.folder / name
        if path.is_dir():
            return sorted(os.listdir(path))
        return path.read_bytes().decode("utf-8", "surrogateescape")

    def values(self, text):
        """The value of an expression: one value, or several where its path has a `*`."""
        source, *filters = text.split("|")
        named = re.match(r"(\w+):(?=out|err|[/#@])", source)
        ran = self.named[named[1]] if named else self.ran
        source = source[named.end() :] if named else source
        if source.startswith("@"):
            found = [self.text(source[1:])]
        elif source.startswith(("/", "#")):
            name = "json" if source.startswith("/") else "jsonl"
            found = walk(FILTERS[name](ran.out), [part for part in re.split("[/#]", source) if part])
        else:
            found = [{"out": ran.out, "err": ran.err}[source]]
        for each in filters:
            name, *path = each.split("/")
            if name == "all":
                found = [found]
            elif name:
                found = [FILTERS[name](value) for value in found]
            found = [value for start in found for value in walk(start, path)]
        return found

    def one(self, text):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            (value,) = self.values(text)
            return value

    def check(self, line):
        line = self.expand(line)
        unary = re.fullmatch(r"(\S+) (there|absent)", line)
        if unary:
            try:
                is_there = bool(self.values(unary[1]))
            except (KeyError, IndexError):
                is_there = False
            return is_there == (unary[2] == "there") or self.fail(line)
        binary = re.fullmatch(r"(.+?) (==|!=|<=?|>=?|~|has|lacks|once|starts|matches|in) (.+)", line)
        if not binary:
            raise Failed("no step and no check")
        left, name, right = binary.groups()
        first, *terms = re.split(r" ([-+*/]) ", left)
        found = self.values(first)
        for sign, term in zip(terms[::2], terms[1::2]):
            found = [ARITHMETIC[sign](value, self.one(term)) for value in found]
        if name == "~":
            wanted, _, by = right.rpartition(" ")
            holds = [near(value, self.one(wanted), by) for value in found]
        elif name in ("has", "lacks", "once"):
            holds = [OPERATIONS[name](value, *literals(right)) for value in found]
        else:
            holds = [OPERATIONS[name](value, self.one(right)) for value in found]
        if not holds or not all(holds):
            shown = found[holds.index(False)] if holds else "nothing"
            self.fail(f"{line}\n  found: {json.dumps(shown, default=repr)[:1500]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="*", help="all beside this script unless named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--hostile", type=pathlib.Path, help="the library that makes decoders crash and hang")
    parser.add_argument("--only", action="append", help="cases whose name or place holds the word")
    parser.add_argument("--times", action="store_true", help="seconds of each case")
    arguments = parser.parse_intermixed_args()
    runner = Runner(arguments.program.resolve(), arguments.hostile)
    cases = []
    for file in sorted(HERE.glob("*.case")):
        found, sets = read_blocks(file)
        runner.sets.update(sets)
        if not arguments.files or file in [each.resolve() for each in arguments.files]:
            cases += found
    if arguments.only:
        cases = [case for case in cases if any(word in f"{case.place} {case.name}" for word in arguments.only)]

    def run(numbered):
        number, block = numbered
        case = Case(runner, block, runner.folder / f"case-{number}")
        try:
            case.run()
        except Skipped as reason:
            # As gtest says it, for scripts/skipped_tests.py.
            name = "contract." + re.sub(r"\W+", "_", block.name)
            print(f"{HERE / block.place}: Skipped\n{reason}\n[  SKIPPED ] {name} (0 ms)", flush=True)
        except Exception as error:  # noqa: BLE001 - of this case alone
            case.failures.append(f"{block.place}: {type(error).__name__}: {error}")
        for failure in case.failures:
            print(f"FAILED {block.name}\n{failure}\n", flush=True)
        if not case.failures:
            shutil.rmtree(case.folder, ignore_errors=True)
        return case

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        done = list(pool.map(run, enumerate(cases)))
    failed = [case for case in done if case.failures]
    if arguments.times:
        for case in sorted(done, key=lambda case: case.seconds):
            print(f"{case.seconds:6.1f} s  {case.block.place} {case.block.name}")
    print(f"{len(done)} cases, {len(failed)} failed, {time.monotonic() - begin:.0f} s")
    if failed:
        print(f"folders of failed cases are kept in {runner.folder}")
    else:
        shutil.rmtree(runner.folder, ignore_errors=True)
    return bool(failed) or not done


if __name__ == "__main__":
    sys.exit(main())
