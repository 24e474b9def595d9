"""`hydrascope convert` and the other commands, as processes of the program."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import _library
from .errors import Error, NotFoundError, make_error, warn

def run(*words: object, **options: Any) -> str:
    """Runs a command of the program, `run("models", "info", "model.safetensors", format="json")`, and returns what it writes to
    standard output. Its notes are warnings, and what else it says comes to `sys.stderr` while it runs: how far it is every ten
    seconds, unless `progress=False`. Its first error is the exception; of pictures that failed that is the first one's. The
    exception's `output` is what was written by then. An interrupt ends the program in order, a second one at once."""
    if options.pop("progress", None) is False:
        options["set"] = {**options.get("set", {}), "progress": False}
    command = [str(_library.program()), *(os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words)]
    with ThreadPoolExecutor(1) as reader, \
            subprocess.Popen(command + _library.words_of(options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", env={**os.environ, "HYDRASCOPE_ERRORS": "json"}) as process:
        assert process.stdout is not None and process.stderr is not None
        reading = reader.submit(process.stdout.read)
        error, last = None, ""
        try:
            for line in process.stderr:
                said = json.loads(line) if line.startswith(('{"error":', '{"note":')) else {}
                if "note" in said:
                    warn(said["note"])
                elif "error" in said:  # of several processes that end because one does, that one is the first to speak
                    error = error or make_error(**said["error"])
                else:
                    last = line
                    print(line, end="", file=sys.stderr, flush=True)
            output = reading.result()
            process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        finally:
            process.kill()  # nothing, where it has ended
    if process.returncode != 0:
        code = process.returncode
        if code == 3:
            error = error or Error("some pictures failed; the exception's output has the others (exit code 3)")
        error = error or Error((f"exit code {code}" if code >= 0 else f"ended by signal {-code}") + (last and f": {last.strip()}"))
        error.output = output
        raise error
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Waits until it has written what is finished. A terminal interrupts both of us, a notebook this process alone."""
    is_told = False
    with contextlib.suppress(OSError), open("/dev/tty", "rb") as terminal:
        is_told = os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    if not is_told:
        process.send_signal(signal.SIGINT)
    process.wait()


def convert(model: Any, output: str | os.PathLike[str], *, attn: str | None = None,
            pictures: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (), arch: str | None = None,
            **options: Any) -> Path:
    """Gives a model another attention by learning from `pictures` (`hydrascope convert --attn ... -i ...`), or without
    `attn` writes a checkpoint in hydrascope's own form. `model` is a name, a file, an instance of a timm vision
    transformer, or with `arch` a state dict of exactly that architecture. Returns `output`."""
    if isinstance(pictures, (str, os.PathLike)):
        pictures = [pictures]
    with tempfile.TemporaryDirectory(prefix="hydrascope-") as folder:
        if not isinstance(model, (str, os.PathLike)):
            from .nn import checkpoints
            file = Path(folder) / "model.safetensors"
            checkpoints.save(model, file, arch=arch)
            if not checkpoints.is_state(model):
                arch = None
            model = file
        elif attn is None and not os.path.exists(model):
            with contextlib.suppress(NotFoundError):  # `convert` says so itself
                model = run("models", "path", model).rstrip("\n")
        if attn is None:
            run("convert", model, output, arch=arch, **options)
        else:
            run("convert", model=model, attn=attn, input=[os.fspath(one) for one in pictures], output=output, arch=arch,
                **options)
    return Path(output)
