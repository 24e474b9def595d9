"""Classifies thousands of files, one in a hundred of them broken, and looks at the records and at the memory.

    load_test.py PROGRAM [--files N] [--report FILE.json]

The files are links to a few pictures; names are odd here and there, and some are not UTF-8. Broken are: empty files, cut ones, text, links to
nothing, headers that declare a bomb, and files that are removed or emptied while the run is on its way to them. What has to hold:

- each input has one record, in order, and exactly the broken ones have errors, of the right kind;
- every record can be joined back to its file by its name's bytes;
- memory grows by at most 50 MB between the 1,000th and the last record (a quarter of the way where there are fewer files);
- SIGINT, SIGTERM and SIGHUP end the run in order, with the exit code of the signal, and --resume completes its records; where the reader of
  a pipe goes, the run ends by SIGPIPE.

Ends with 1 if anything of this does not.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TINY = SOURCE / "tests/corpus/states/0.1/tiny"
IMAGES = SOURCE / "tests/corpus/pictures/good"
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", NO_COLOR="1")
MOST_GROWTH = 50  # MB


def write_sources(folder):
    """Pictures to link to, and broken files by the code of their error."""
    folder.mkdir()
    good = [IMAGES / name for name in ("baseline.jpg", "progressive.jpg", "colour.bmp", "grey.jpg")]
    for number, (width, height) in enumerate(((40, 32), (320, 200), (640, 480), (31, 257))):
        path = folder / f"good{number}.ppm"
        path.write_bytes(b"P6\n%d %d\n255\n" % (width, height) + bytes(range(256)) * (width * height * 3 // 256 + 1))
        good.append(path)
    cut = (IMAGES / "baseline.jpg").read_bytes()
    bomb = bytearray((IMAGES / "colour.bmp").read_bytes())
    bomb[18:26] = (2000000000).to_bytes(4, "little") * 2
    broken = {"empty": b"", "decode_failed": cut[: len(cut) // 2], "unsupported_format": b"no picture\n", "too_large": bytes(bomb)}
    for code, content in broken.items():
        (folder / code).write_bytes(content)
    return good, [(code, folder / code) for code in broken] + [("not_found", folder / "nowhere")]


class Load:
    def __init__(self, program, folder, count):
        self.program, self.folder, self.count = program, folder, count
        good, broken = write_sources(folder / "sources")
        self.errors = {}  # name's bytes -> code
        self.names = []
        self.removed, self.emptied = [], []
        (folder / "set").mkdir()
        for i in range(count):
            name = b"set/%06d" % i + (b" \xff\xc3\xa9%.x" if i % 500 == 7 else b".jpg")
            self.names.append(name)
            path = os.path.join(os.fsencode(folder), name)
            if i % 100 == 50:
                code, target = broken[i // 100 % len(broken)]
                self.errors[name] = code
            else:
                target = good[i % len(good)]
            late = i > count * 3 // 4 and i % 100 == 99
            if late:
                shutil.copy(target, path)
                (self.removed if i % 200 == 99 else self.emptied).append(name)
                self.errors[name] = "not_found" if name in self.removed else "empty"
            else:
                os.symlink(target, path)

    def words(self, *more):
        names = self.folder / "names"
        names.write_bytes(b"".join(name + b"\n" for name in self.names))
        # The model does not say how its pictures are prepared, which would be a note.
        prepared = ["--set", "mean=0.5,0.5,0.5", "--set", "std=0.5,0.5,0.5", "--set", "crop-pct=0.9", "--set", "interpolation=bicubic"]
        return [self.program, "classify", "@names", *prepared, "-m", TINY, "--format", "jsonl", "--device", "cpu", "--threads", "1", "--precision", "float32",
                "--set", "progress=off", *more]

    def start(self, *more, **options):
        return subprocess.Popen(self.words(*more), cwd=self.folder, env=ENVIRONMENT, stderr=subprocess.PIPE, **options)

    def damage(self):
        for name in self.removed:
            os.unlink(os.path.join(os.fsencode(self.folder), name))
        for name in self.emptied:
            os.truncate(os.path.join(os.fsencode(self.folder), name), 0)

    def restore(self):
        for name in self.removed + self.emptied:
            shutil.copy(self.folder / "sources/good0.ppm", os.path.join(os.fsencode(self.folder), name))

    def wrong_with(self, records, errors):
        """`errors`: of those that are expected to have one; the records may end early."""
        for number, (name, record) in enumerate(zip(self.names, records)):
            found = urllib.parse.unquote_to_bytes(record["input_bytes"]) if "input_bytes" in record else record["input"].encode()
            if found != name:
                return f"record {number} is of {found}, not of {name}"
            code = record.get("error", {}).get("code")
            if code != errors.get(name):
                return f"{name} has the error {code}, not {errors.get(name)}"
        return None

    def measure(self, *more):
        """A whole run: figures, and what is wrong or None."""
        part = self.folder / "records.jsonl.part"
        process = self.start("-o", "records.jsonl", *more)
        samples, damaged, begin = [], False, time.monotonic()
        lines, at = 0, 0
        while process.poll() is None:
            time.sleep(0.02)
            if part.exists():
                with part.open("rb") as stream:
                    stream.seek(at)
                    text = stream.read()
                lines, at = lines + text.count(b"\n"), at + len(text)
            samples.append((lines, resident(process.pid)))
            if not damaged and lines > self.count // 8:
                self.damage()
                damaged = True
        seconds = time.monotonic() - begin
        said = process.stderr.read().decode()
        records = [json.loads(line) for line in (self.folder / "records.jsonl").read_text().splitlines()]
        first = min(1000, self.count // 4)
        before = max((memory for count, memory in samples if count <= first), default=0)
        after = max((memory for count, memory in samples if count > first), default=0)
        figures = {"files": self.count, "records": len(records), "errors": sum("error" in record for record in records),
                   "seconds": round(seconds, 1), "mb_until_first": round(before, 1), "first": first, "mb_at_most_behind": round(after, 1)}
        wrong = self.wrong_with(records, self.errors)
        if len(records) != self.count:
            wrong = wrong or f"{len(records)} records of {self.count}"
        if process.returncode != 3 or said:
            wrong = wrong or f"ended with {process.returncode} and says {said}"
        if not damaged or after == 0:
            wrong = wrong or "it was too quick to be measured"
        if after - before > MOST_GROWTH:
            wrong = wrong or f"memory grows from {before:.1f} to {after:.1f} MB"
        (self.folder / "records.jsonl").unlink()
        self.restore()
        return figures, wrong

    def try_signal(self, number):
        """The faults of a run that gets the signal, and with the one that goes on."""
        undamaged = {name: code for name, code in self.errors.items() if name not in self.removed + self.emptied}
        process = self.start("-o", "records.jsonl")
        part, file = self.folder / "records.jsonl.part", self.folder / "records.jsonl"
        while process.poll() is None and not (part.exists() and part.stat().st_size > 100 * 200):
            time.sleep(0.002)
        process.send_signal(number)
        process.wait()
        process.stderr.close()
        if process.returncode != 128 + number:
            return f"ended with {process.returncode}"
        text = file.read_text()
        records = [json.loads(line) for line in text.splitlines()]
        if not text.endswith("\n") or not 0 < len(records) < self.count:
            return f"{len(records)} records"
        wrong = self.wrong_with(records, undamaged)
        outcome = subprocess.run(self.words("-o", "records.jsonl", "--resume"), cwd=self.folder, env=ENVIRONMENT, check=False,
                                 capture_output=True)
        records = [json.loads(line) for line in file.read_text().splitlines()]
        file.unlink()
        if outcome.returncode != 3 or len(records) != self.count:
            return wrong or f"the run that goes on ended with {outcome.returncode} and {len(records)} records: {outcome.stderr}"
        return wrong or self.wrong_with(records, undamaged)

    def try_pipe(self):
        process = self.start(stdout=subprocess.PIPE)
        for _ in range(10):
            process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        return None if process.wait() == -signal.SIGPIPE and not said else f"ended with {process.returncode} and says {said}"


def resident(process):
    """MB that the process has in memory."""
    try:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--report", type=pathlib.Path)
    arguments = parser.parse_args()
    findings, table = [], {}
    with tempfile.TemporaryDirectory(prefix="load_test.") as name:
        load = Load(arguments.program.resolve(), pathlib.Path(name).resolve(), arguments.files)
        table, wrong = load.measure()
        findings += [wrong] if wrong else []
        print(table, flush=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if wrong := load.try_signal(number):
                findings.append(f"{number.name}: {wrong}")
        if wrong := load.try_pipe():
            findings.append(f"SIGPIPE: {wrong}")
    print("\n".join(findings) or "nothing is wrong")
    if arguments.report:
        arguments.report.write_text(json.dumps(table, indent=1) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
