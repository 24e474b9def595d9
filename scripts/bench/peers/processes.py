"""The processes that a comparison talks to: hydrascope, kernel_bench and the peers' worker."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

Json = dict[str, Any]


class Failure(Exception):
    """Why something has no figure; one line."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no message"])[-1].removeprefix("error: ")[:300]


def json_lines(text: str) -> list[Json]:
    """The JSON objects among the lines; one that was cut off when its process ended is left out."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
    return found


def write_json(file: Path, result: Json) -> None:
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


class Clock:
    """How much of the run's time is left."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()

    def demand(self, seconds: float) -> None:
        if self.left() < seconds:
            raise Failure("no time was left")


def stop(process: "subprocess.Popen[str]", how: signal.Signals = signal.SIGKILL) -> None:
    """Ends a process that `start` began, with what it began itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def start(command: list[str], **streams: Any) -> "subprocess.Popen[str]":
    try:
        return subprocess.Popen(
            command, text=True, errors="replace", start_new_session=True, **streams
        )
    except OSError as error:
        raise Failure(f"{command[0]} cannot be started: {error.strerror}") from None


def ending(code: int, messages: str) -> str:
    """Why a process did not end well; "" where it did."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return last_line(messages) if code != 0 else ""


def run(command: list[str], clock: Clock, most: float = 200) -> tuple[str, str]:
    """Standard output, and why the process did not end well ("" where it did): what it printed
    before is not lost."""
    limit = min(most, clock.left())
    if limit <= 0:
        raise Failure("no time was left")
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        stop(process, signal.SIGINT)  # hydrascope writes the rows that it has
        try:
            output, errors = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            stop(process)
            output, errors = process.communicate()
        return output, f"took longer than {limit:.0f} s"
    except BaseException:  # this program is being ended
        stop(process)
        raise
    return output, ending(process.returncode, errors)


def benchmark(
    program: Path, options: Json, clock: Clock, most: float = 200
) -> tuple[Json, list[Json], str]:
    """`hydrascope benchmark`: its header, its rows, and why there are not more of them."""
    command = [str(program), "benchmark", "-q", "--format=jsonl"]
    settings = {"warmup", "iters", "duration", "workers", "seed"}
    command += [f"--set={name}={value}" if name in settings else f"--{name}={value}" for name, value in options.items() if value is not None]
    output, why = run(command, clock, most)
    lines = json_lines(output)
    header = next((line["header"] for line in lines if "header" in line), {})
    rows = [line for line in lines if "header" not in line]
    if not rows:
        raise Failure(why or "hydrascope benchmark printed no row")
    return header, rows, why


class Worker:
    """worker.py in a process of its own, started when it is first asked and again after it was
    stopped for taking too long. `with` ends it."""

    def __init__(self, command: list[str], log: Path, clock: Clock) -> None:
        self.command = command
        self.log = log
        self.log_begin = 0  # what this process wrote begins there
        self.clock = clock
        self.process: subprocess.Popen[str] | None = None
        self.replies: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, most: float = 120, **job: Any) -> Json:
        limit = min(most, self.clock.left())
        if limit <= 0:
            raise Failure("no time was left")
        if self.process is None:
            self.begin()
        process = self.process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = self.replies.get(timeout=limit)
        except queue.Empty:
            self.end()
            raise Failure(f"took longer than {limit:.0f} s") from None
        except BrokenPipeError:
            line = ""
        if not line:
            code = process.wait()
            self.end()
            said = self.log.read_bytes()[self.log_begin :].decode("utf-8", "replace")
            raise Failure(f"its process ended: {ending(code, said) or 'without an answer'}")
        reply: Json = json.loads(line)
        if "error" in reply:
            raise Failure(str(reply["error"]))
        return reply

    def begin(self) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            self.log_begin = log.tell()
            self.process = start(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self.replies = queue.Queue()
        assert self.process.stdout is not None
        threading.Thread(
            target=self.listen, args=(self.process.stdout, self.replies), daemon=True
        ).start()

    @staticmethod
    def listen(output: IO[str], replies: "queue.Queue[str]") -> None:
        for line in output:
            replies.put(line)
        replies.put("")

    def end(self) -> None:
        if self.process is not None:
            stop(self.process)
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        self.process = None
