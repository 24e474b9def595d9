"""What the library answers, as Python's own."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _library
from .errors import Error, make_error

Box = tuple[float, float, float, float]
"""left, top, width, height in pixels of the picture, upright."""


@dataclass(frozen=True)
class Prediction:
    index: int
    label: str
    probability: float
    logit: float
    id: str = ""
    box: Box | None = None
    """With `views`: where the class was found."""


@dataclass(frozen=True, eq=False)
class Map:
    values: np.ndarray
    """float32 (rows, columns), not scaled."""
    method: str
    layer: int
    head: str
    class_index: int
    label: str
    is_signed: bool
    box: Box
    """What the cells divide evenly; it may reach beyond the picture."""
    record: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Answer:
    record: dict[str, Any] = field(repr=False)
    """What the command line writes of the picture."""
    top: tuple[Prediction, ...] = ()
    logits: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32), repr=False)
    maps: tuple[Map, ...] = ()
    embedding: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32), repr=False)
    error: Error | None = None

    @property
    def label(self) -> str:
        """Of the most probable class; raises `error` where there is one."""
        return self._best().label

    @property
    def probability(self) -> float:
        return self._best().probability

    def _best(self) -> Prediction:
        if self.error is not None:
            raise self.error
        return self.top[0]


def answer_of(handle: int, path: str | None) -> Answer:
    """`path` is that of the picture where it is a file."""
    library = _library.library()
    record = json.loads(library.answer_record(handle))
    code = library.answer_error_code(handle)
    if code is not None:
        text = library.answer_error_text(handle).decode(errors="replace")
        return Answer(record, error=make_error(code.decode(), f"{text} ({record['input']})", path))
    return Answer(record, tuple(_prediction(one) for one in _list("top", handle)), _floats("logits", handle),
                  tuple(_map(one) for one in _list("maps", handle)), _floats("embedding", handle))


def _list(what: str, handle: int) -> Any:
    count = ctypes.c_size_t()
    return getattr(_library.library(), f"answer_{what}")(handle, count)[:count.value]


def _floats(what: str, handle: int) -> np.ndarray:
    count = ctypes.c_size_t()
    values = getattr(_library.library(), f"answer_{what}")(handle, count)
    return np.ctypeslib.as_array(values, (count.value,)).copy() if count.value else np.empty(0, np.float32)


def _prediction(one: _library.PredictionFields) -> Prediction:
    box = (one.left, one.top, one.width, one.height) if one.has_box else None
    return Prediction(one.index, one.label.decode(), one.probability, one.logit, one.id.decode(), box)


def _map(one: _library.MapFields) -> Map:
    return Map(np.ctypeslib.as_array(one.values, (one.rows, one.columns)).copy(), one.method.decode(), one.layer,
               one.head.decode(), one.class_index, one.label.decode(), bool(one.is_signed),
               (one.left, one.top, one.width, one.height), json.loads(one.record))
