"""The common parts of the measuring scripts: runs of the program, alone or in turns, and tables. Standard library only."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "hydrascope"
sys.path.append(str(ROOT / "scripts" / "bench" / "peers"))

from pages import lines_of_table  # noqa: E402

Json = dict[str, Any]
Command = list[object]


class Failure(Exception):
    """The program could not do something; the message is its own."""


@dataclass(frozen=True)
class Run:
    """One process, from exec to exit."""

    output: str
    messages: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int

    def timing(self) -> dict[str, float]:
        """The line that -v ends with."""
        lines = [line for line in self.messages.splitlines() if line.startswith("timing: ")]
        if not lines:
            raise Failure("no line `timing: ...` on stderr")
        return {name: float(value) for name, value in re.findall(r"(\w+)=(\S+)", lines[-1])}


def run(command: Command, codes: tuple[int, ...] = (0,), limit: float | None = None) -> Run:
    """A process that takes more than `limit` seconds is stopped, which is a Failure."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as messages:
        begin = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=messages)
        stop = threading.Timer(limit, process.kill) if limit else None
        if stop:
            stop.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        if stop:
            stop.cancel()
            if seconds >= limit:
                raise Failure(f"takes more than {limit:g} s")
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        messages.seek(0)
        said = messages.read()
        if process.returncode not in codes:
            lines = [line for line in said.splitlines() if line.startswith("error:")] or said.splitlines()
            raise Failure(lines[0] if lines else f"exit code {process.returncode}")
        return Run(output.read(), said, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def run_json(command: Command, limit: float | None = None) -> Json:
    """The JSON that a command prints, in one line or several."""
    return json.loads(run([*command, "--format", "json", "-q"], limit=limit).output)


def benchmark(program: Path | str, *options: object) -> Json:
    """The only row of `hydrascope benchmark`."""
    return run_json([program, "benchmark", *options])["rows"][0]


def take_turns(commands: dict[str, Command], rounds: int, codes: tuple[int, ...] = (0,)) -> dict[str, list[Run]]:
    """The first round, which fetches files and pages, does not count."""
    taken: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            found = run(command, codes)
            if number > 0:
                taken[name].append(found)
    return taken


def machine() -> str:
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    return f"{len(re.findall('^processor', text, re.MULTILINE))} cores of {name[1] if name else 'an unknown processor'}"


def table(head: list[str], rows: list[list[str]], texts: int = 1) -> str:
    """Markdown; the first `texts` columns hold text, the others numbers."""
    return "\n".join([*lines_of_table(head, rows, texts), ""])
