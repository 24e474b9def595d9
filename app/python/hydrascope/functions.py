"""The functions that open a model by themselves."""

from __future__ import annotations

import atexit
import collections
import os
import stat
import threading
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from . import _library
from ._pictures import PictureLike
from .answers import Answer
from .errors import InvalidArgumentError
from .model import Model, OnError

_MOST_OPEN = 2
_opened: collections.OrderedDict[Hashable, Model] = collections.OrderedDict()
_lock = threading.Lock()
atexit.register(_opened.clear)


def _after_fork() -> None:
    """The models of the other process cannot be asked here, and a thread that held the lock is not there."""
    global _lock
    _lock = threading.Lock()
    _opened.clear()


os.register_at_fork(after_in_child=_after_fork)


def _file_facts(value: object) -> Hashable:
    """The identity of the file or folder that a word names, which changes with its content; the word without one."""
    if not isinstance(value, (str, os.PathLike)):
        return None
    try:
        path = os.path.realpath(value)
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            return path, status.st_mtime_ns, status.st_size
        with os.scandir(path) as entries:
            files = [(one.name, one.stat()) for one in entries if one.is_file()]
    except (OSError, ValueError):
        return os.fspath(value)
    return path, *sorted((name, facts.st_mtime_ns, facts.st_size) for name, facts in files)


def _model(model: Any, wants: int, options: dict[str, Any]) -> Model:
    """An open model; those that a name or a file means, and the last two of them, stay open."""
    if isinstance(model, Model):
        if any(value is not None for value in options.values()):
            raise InvalidArgumentError("the model is open already: its options are given to Model(...)")
        return model
    if model is not None and not isinstance(model, (str, os.PathLike)):
        return _open(model, wants, options)
    given = sorted(options.items())
    key = (_file_facts(model), *_library.words_of(dict(given)), *(_file_facts(value) for _, value in given))
    with _lock:
        found = _opened.get(key)
        if found is None or wants & ~found._wants:
            wants |= _library.EMBEDDING  # embeddings cost nothing
            _opened[key] = found = _open(model, wants | (found._wants if found else 0), options)
            if len(_opened) > _MOST_OPEN:
                _opened.popitem(last=False)
        _opened.move_to_end(key)
        return found


def _open(model: Any, wants: int, options: dict[str, Any]) -> Model:
    return Model(model, maps=bool(wants & _library.MAPS), embeddings=bool(wants & _library.EMBEDDING), **options)


@overload
def classify(pictures: PictureLike, *, model: Any = None, attn: str | None = None, topk: int = 5,
             on_error: OnError = "fail", progress: bool | None = None, **options: Any) -> Answer: ...


@overload
def classify(pictures: Iterable[PictureLike], *, model: Any = None, attn: str | None = None, topk: int = 5,
             on_error: OnError = "fail", progress: bool | None = None, **options: Any) -> list[Answer]: ...


def classify(pictures: PictureLike | Iterable[PictureLike], *, model: Any = None, attn: str | None = None, topk: int = 5,
             on_error: OnError = "fail", progress: bool | None = None, **options: Any) -> Answer | list[Answer]:
    """Classes of pictures, as `hydrascope classify` finds them: an `Answer` of one, a list of several.

    A picture is a path, the bytes of a file or a file that is open for reading them, a PIL image, an array uint8
    (H, W, 3) or a tensor uint8, also (3, H, W); a folder, a pattern and a list's @name are several. `model` is what `Model` takes, or one. Options are those of the command
    line: `img_size=384`, `native=True`. The last two models that names and files mean stay open. An instance of a timm
    model and a state dict, whose weights may change, are opened at every call: make a `Model` of them for many calls.
    """
    return _model(model, 0, {"attn": attn, **options}).classify(pictures, topk=topk, on_error=on_error, progress=progress)


@overload
def explain(pictures: PictureLike, *, model: Any = None, attn: str | None = None,
            classes: Sequence[str | int] | str | int = (), topk: int | None = None, on_error: OnError = "fail",
            progress: bool | None = None, **options: Any) -> Answer: ...


@overload
def explain(pictures: Iterable[PictureLike], *, model: Any = None, attn: str | None = None,
            classes: Sequence[str | int] | str | int = (), topk: int | None = None, on_error: OnError = "fail",
            progress: bool | None = None, **options: Any) -> list[Answer]: ...


def explain(pictures: PictureLike | Iterable[PictureLike], *, model: Any = None, attn: str | None = None,
            classes: Sequence[str | int] | str | int = (), topk: int | None = None, on_error: OnError = "fail",
            progress: bool | None = None, **options: Any) -> Answer | list[Answer]:
    """The same with `maps` of what the prediction rests on, as `hydrascope visualize --save-raw` writes them; `method`,
    `layer` and `head` say which."""
    opened = _model(model, _library.MAPS, {"attn": attn, **options})
    return opened.explain(pictures, classes=classes, topk=topk, on_error=on_error, progress=progress)


def embed(pictures: PictureLike | Iterable[PictureLike], *, model: Any = None, attn: str | None = None,
          progress: bool | None = None, **options: Any) -> np.ndarray:
    """The input of the classifier's head, timm's `forward_head(pre_logits=True)`: float32 (embed_dim) of one picture,
    (n, embed_dim) of several."""
    return _model(model, _library.EMBEDDING, {"attn": attn, **options}).embed(pictures, progress=progress)


def samples() -> dict[str, Path]:
    """The photographs that come along, by name: `samples()["otter-head"]`."""
    return {Path(one).stem: Path(one) for one in _library.registry()["samples"]}
