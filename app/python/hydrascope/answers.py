"""The library's answers as Python's own objects."""

from __future__ import annotations

import base64
import ctypes
import html
import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _library, _pictures
from .errors import Error, InvalidArgumentError, make_error

if TYPE_CHECKING:
    import PIL.Image

Box = tuple[float, float, float, float]
"""left, top, width, height in pixels of the picture, upright."""
_SHOWN_EDGE = 960
"""Pixels of a picture in a notebook, at most."""


@dataclass(frozen=True)
class Prediction:
    index: int
    label: str
    probability: float
    logit: float
    id: str = ""
    box: Box | None = None
    """With `views` zoom, the default: the view of a large picture that says most of the class."""
    mark: tuple[int, int] | None = None
    """x and y of the point in the box where the evidence of all views is densest."""

    def __str__(self) -> str:
        return f"{self.label} {self.probability:.1%}"


class _Source:
    """The library's answer, and the picture that it is of where that is known. It stays in its process."""

    def __init__(self, handle: int, picture: _pictures.Described | None) -> None:
        self._handle, self._picture, self._free = handle, picture, _library.library().free

    def __del__(self) -> None:
        self._free(self._handle)

    def __reduce__(self) -> Any:
        return type(None), ()

    def has_picture(self) -> bool:
        return self._picture is not None

    def draw(self, maps: list[int], picture: Any, options: dict[str, Any]) -> PIL.Image.Image:
        from PIL import Image
        described = self._picture if picture is None else _pictures.describe(picture, 0)
        if described is None:
            raise InvalidArgumentError("the answer does not hold its picture: give it, draw(picture)")
        words, height, width = _library.words_of(options), ctypes.c_int64(), ctypes.c_int64()
        pixels = _library.library().draw(self._handle, (ctypes.c_size_t * len(maps))(*maps), len(maps),
                                         ctypes.byref(described.fields), _library.c_words(words), len(words), height, width)
        if not pixels:
            raise _library.last_error()
        return Image.frombytes("RGB", (width.value, height.value), ctypes.string_at(pixels, 3 * height.value * width.value))


class _Shown:
    """A result that can be drawn, and shows itself in a notebook."""

    _source: _Source | None
    _maps: list[int]

    def draw(self, picture: _pictures.PictureLike | None = None, **options: Any) -> PIL.Image.Image:
        """The picture with the maps over it, as `hydrascope visualize` draws them with the options of its drawing
        (`caption=True`, `beside=True`, `sign="both"`, `cmap="turbo"`). The picture must be given where it was
        one of several in memory."""
        if self._source is None:
            raise InvalidArgumentError("an answer that failed, or came from another process, cannot be drawn")
        return self._source.draw(self._maps, picture, options)

    def _encoded(self, form: str) -> bytes | None:
        if self._source is None or not self._source.has_picture():
            return None
        image, stream = self.draw(**({"caption": True} if self._maps else {})), io.BytesIO()
        image.thumbnail((_SHOWN_EDGE, _SHOWN_EDGE))
        image.save(stream, form)
        return stream.getvalue()

    def _repr_png_(self) -> bytes | None:
        return self._encoded("PNG")

    def _repr_html_(self) -> str:
        jpeg = self._encoded("JPEG")
        image = f'<img src="data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}" style="max-width:100%">' if jpeg else ""
        return f"<div>{image}{self._table()}</div>"

    def _table(self) -> str:
        return "" if self._source and self._source.has_picture() else html.escape(repr(self))


@dataclass(frozen=True, eq=False, repr=False)
class Map(_Shown):
    values: np.ndarray
    """float32 (rows, columns), not scaled."""
    method: str
    layer: int
    head: str
    class_index: int
    label: str
    is_signed: bool
    box: Box
    """The area that the cells divide evenly; it may reach beyond the picture."""
    record: dict[str, Any]
    _source: _Source | None = None
    _maps: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        return f"<Map of {self.label} {self.record['class']['prob']:.1%}, {self.method}, layer {self.layer}, {rows}x{columns}>"


@dataclass(frozen=True, eq=False, repr=False)
class Answer(_Shown):
    record: dict[str, Any]
    """The command line's text about the picture."""
    top: tuple[Prediction, ...] = ()
    """The most probable classes."""
    logits: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    maps: tuple[Map, ...] = ()
    embedding: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    error: Error | None = None
    _source: _Source | None = None

    @property
    def _maps(self) -> list[int]:  # type: ignore[override]
        return list(range(len(self.maps)))

    @property
    def label(self) -> str:
        """The most probable class; raises `error` if there is one."""
        return self._best().label

    @property
    def probability(self) -> float:
        return self._best().probability

    def _best(self) -> Prediction:
        if self.error is not None:
            raise self.error
        return self.top[0]

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<Answer: {self.error}>"
        maps = f"; {len(self.maps)} map{'s' * (len(self.maps) > 1)}" if self.maps else ""
        return f"<Answer: {', '.join(map(str, self.top))}{maps}>"

    def _table(self) -> str:
        if self.error is not None:
            return html.escape(str(self.error))
        bar = '<div style="background:#3b82c4;height:.8em;width:{:.0f}px"></div>'
        return "<table>" + "".join(f"<tr><td>{html.escape(one.label)}<td>{bar.format(160 * one.probability)}<td>{one.probability:.1%}"
                                   for one in self.top) + "</table>"


def answer_of(handle: int, path: str | None, picture: _pictures.Described | None) -> Answer:
    """`path` is that of the picture where it is a file; `picture` may be drawn on later."""
    library = _library.library()
    source = _Source(handle, picture)
    record = json.loads(library.answer_record(handle))
    code = library.answer_error_code(handle)
    if code is not None:
        text = library.answer_error_text(handle).decode(errors="replace")
        return Answer(record, error=make_error(code.decode(), f"{text} ({record['input']})", path))
    maps = tuple(_map(one, source, place) for place, one in enumerate(_list("maps", handle)))
    top = tuple(_prediction(one, said.get("mark")) for one, said in zip(_list("top", handle), record["top"]))
    return Answer(record, top, _floats("logits", handle), maps, _floats("embedding", handle), None, source)


def _list(what: str, handle: int) -> Any:
    count = ctypes.c_size_t()
    return getattr(_library.library(), f"answer_{what}")(handle, count)[:count.value]


def _floats(what: str, handle: int) -> np.ndarray:
    count = ctypes.c_size_t()
    values = getattr(_library.library(), f"answer_{what}")(handle, count)
    return np.ctypeslib.as_array(values, (count.value,)).copy() if count.value else np.empty(0, np.float32)


def _prediction(one: _library.PredictionFields, mark: dict[str, int] | None) -> Prediction:
    box = (one.left, one.top, one.width, one.height) if one.has_box else None
    return Prediction(one.index, one.label.decode(), one.probability, one.logit, one.id.decode(), box,
                      (mark["x"], mark["y"]) if mark else None)


def _map(one: _library.MapFields, source: _Source, place: int) -> Map:
    return Map(np.ctypeslib.as_array(one.values, (one.rows, one.columns)).copy(), one.method.decode(), one.layer,
               one.head.decode(), one.class_index, one.label.decode(), bool(one.is_signed),
               (one.left, one.top, one.width, one.height), json.loads(one.record), source, [place])
