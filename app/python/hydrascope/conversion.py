"""`hydrascope convert` and the other commands, as processes of the program."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _library
from .errors import Error, NotFoundError, make_error

# How a picture that failed is written as text, and in JSON.
_FAILED_TEXT = re.compile(r"^(?P<input>.*?)  error: (?P<code>\w+): (?P<message>.*)$", re.MULTILINE)
_FAILED_JSON = re.compile(r'"input":(?P<input>"(?:[^"\\]|\\.)*")[^\n]*?"error":\{"code":"(?P<code>\w+)",'
                          r'"message":(?P<message>"(?:[^"\\]|\\.)*")')


def run(*words: object, **options: Any) -> str:
    """Runs a command of the program, `run("inspect", "model.safetensors", format="json")`, and returns what it writes to
    standard output. What it says besides goes to standard error, whose first error is the exception; of pictures that
    failed the exception is the first one's."""
    command = [str(_library.program()), *(os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words)]
    process = subprocess.run(command + _library.words_of(options), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace", check=False)
    if process.returncode != 0:
        raise _failure(process)
    return process.stdout


def _failure(process: subprocess.CompletedProcess[str]) -> Error:
    # Of several processes that end because one does, that one is the first to speak.
    if said := re.search(r"^error: (.*?)(?=^error: |\Z)", process.stderr, re.MULTILINE | re.DOTALL):
        return make_error("invalid_argument" if process.returncode == 2 else "failed", said[1].strip())
    if found := _FAILED_JSON.search(process.stdout):
        name, message = json.loads(found["input"]), json.loads(found["message"])
    elif found := _FAILED_TEXT.search(process.stdout):
        name, message = found["input"], found["message"]
    else:
        return Error(process.stderr.strip() or f"exit code {process.returncode}")
    return make_error(found["code"], f"{message} ({name})", name)


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
