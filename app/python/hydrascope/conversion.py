"""`hydrascope convert` and the other commands, as processes of the program."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _library
from .errors import make_error


def run(*words: object, **options: Any) -> str:
    """Runs a command of the program, `run("inspect", "model.safetensors", format="json")`, and returns what it writes to
    standard output. What it says besides goes to standard error, where a failure's last line is the exception's, too."""
    command = [str(_library.program()), *(os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words)]
    process = subprocess.run(command + _library.words_of(options), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace", check=False)
    if process.returncode != 0:
        said = process.stderr[process.stderr.rfind("error: ") + len("error: "):] if "error: " in process.stderr \
            else process.stderr or f"exit code {process.returncode}"
        raise make_error("invalid_argument" if process.returncode == 2 else "failed", said.strip())
    return process.stdout


def convert(model: Any, output: str | os.PathLike[str], *, attn: str | None = None,
            pictures: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (), arch: str | None = None,
            **options: Any) -> Path:
    """Gives a model another attention by learning from `pictures` (`hydrascope convert --attn ... -i ...`), or without
    `attn` writes a checkpoint in hydrascope's own form. `model` is a name, a file, an instance of a timm vision
    transformer, or with `arch` a state dict. Returns `output`."""
    if isinstance(pictures, (str, os.PathLike)):
        pictures = [pictures]
    with tempfile.TemporaryDirectory(prefix="hydrascope-") as folder:
        if not isinstance(model, (str, os.PathLike)):
            from .nn import checkpoints
            file = Path(folder) / "model.safetensors"
            checkpoints.save(model, file, arch=arch)
            model = file
        if attn is None:
            run("convert", model, output, **options)
        else:
            run("convert", model=model, attn=attn, input=[os.fspath(one) for one in pictures], output=output, **options)
    return Path(output)
