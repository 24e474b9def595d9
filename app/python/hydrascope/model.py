"""A model that stays open, and the functions that open one by themselves."""

from __future__ import annotations

import atexit
import collections
import ctypes
import json
import os
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import _library, _pictures
from ._pictures import PictureLike
from .errors import Error, InvalidArgumentError, make_error

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        return self.top[0].label

    @property
    def probability(self) -> float:
        return self.top[0].probability


OnError = Literal["fail", "skip"]


class Model:
    """A model that is opened once; it may be asked from several threads, whose pictures are classified together.

    `model` is a name, file or folder as of `--model`, an instance of a timm vision transformer, or with `arch` a state
    dict. Options are those of the command line: `Model(attn="hydra:last2", img_size=384, precision="bfloat16")`. With
    `maps=True`, or with one of `method`, `layer`, `head` and `mapless`, it can explain, with `embeddings=True` embed.
    """

    def __init__(self, model: Any = None, *, attn: str | None = None, maps: bool = False, embeddings: bool = False,
                 arch: str | None = None, **options: Any) -> None:
        self._handle: int | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if model is not None and not isinstance(model, (str, os.PathLike)):
            from .nn import checkpoints
            self._folder = tempfile.TemporaryDirectory(prefix="hydrascope-")
            file = Path(self._folder.name) / "model.safetensors"
            checkpoints.save(model, file, arch=arch)
            model = file
        elif arch is not None:
            raise InvalidArgumentError("names the architecture of a state dict (arch)")
        maps = maps or any(options.get(name) is not None for name in ("method", "layer", "head", "mapless"))
        words = _library.words_of({"model": model, "attn": attn, **options})
        wants = _library.MAPS * maps + _library.EMBEDDING * embeddings
        self._library = _library.library()
        self._handle = self._library.open(_library.c_words(words), len(words), wants)
        if not self._handle:
            raise _library.last_error()
        self.facts: dict[str, Any] = json.loads(self._library.facts(self._handle))
        """name, num_classes, embed_dim, attention, device, precision, transform, maps, notes, ..."""

    def close(self) -> None:
        """Frees the model; what is being asked is answered first."""
        handle, self._handle = self._handle, None
        if handle:
            self._library.close(handle)
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def label(self, index: int) -> str:
        text = self._library.label(self._open(), index)
        if text is None:
            raise IndexError(index)
        return text.decode()

    def classify(self, pictures: PictureLike | Iterable[PictureLike], *, topk: int = 5,
                 on_error: OnError = "fail") -> Any:
        """The classes of each picture: an `Answer` of one, a list of several. With `on_error="skip"` a picture that
        failed has its `error` instead of ending the call."""
        return self._ask(pictures, 0, {"topk": topk}, on_error)

    def explain(self, pictures: PictureLike | Iterable[PictureLike], *, classes: Sequence[str | int] | str | int = (),
                topk: int | None = None, method: Any = None, layer: Any = None, head: Any = None,
                on_error: OnError = "fail") -> Any:
        """The same with `maps`: of the predicted class, or of `classes` and the `topk` best; of all maps that the model
        was opened for, or some."""
        if isinstance(classes, (str, int)):
            classes = [classes]
        options = {"class": list(classes) or None, "topk": topk, "method": method, "layer": layer, "head": head}
        return self._ask(pictures, _library.MAPS, options, on_error)

    def embed(self, pictures: PictureLike | Iterable[PictureLike]) -> np.ndarray:
        """What the classifier's head is given: float32 (embed_dim) of one picture, (n, embed_dim) of several."""
        answers = self._ask(pictures, _library.EMBEDDING, {}, "fail")
        return answers.embedding if isinstance(answers, Answer) else np.stack([one.embedding for one in answers])

    def _open(self) -> int:
        if self._handle is None:
            raise InvalidArgumentError("the model is closed")
        return self._handle

    def _ask(self, pictures: Any, wants: int, options: dict[str, Any], on_error: OnError) -> Any:
        if on_error not in ("fail", "skip"):
            raise InvalidArgumentError(f"expected fail or skip, found '{on_error}' (on_error)")
        given = _pictures.as_list(pictures)
        asked = (_library.Picture * len(given))()
        kept = [_pictures.fill(picture, value, number) for number, (picture, value) in enumerate(zip(asked, given))]
        words = _library.words_of(options)
        handles = (ctypes.c_void_p * len(given))()
        if self._library.ask(self._open(), asked, len(given), _library.c_words(words), len(words), wants, handles) != 0:
            raise _library.last_error()
        del kept
        try:
            answers = [self._answer(handle) for handle in handles]
        finally:
            for handle in handles:
                self._library.free(handle)
        for answer in answers:
            if answer.error is not None and on_error == "fail":
                raise answer.error
        return answers[0] if _pictures.is_one(pictures) else answers

    def _answer(self, handle: int) -> Answer:
        record = json.loads(self._library.answer_record(handle))
        code = self._library.answer_error_code(handle)
        if code is not None:
            text = self._library.answer_error_text(handle).decode(errors="replace")
            return Answer(record, error=make_error(code.decode(), f"{text} ({record['input']})"))
        return Answer(record, tuple(_prediction(one) for one in self._list("top", handle)),
                      self._floats("logits", handle), tuple(_map(one) for one in self._list("maps", handle)),
                      self._floats("embedding", handle))

    def _list(self, what: str, handle: int) -> Any:
        count = ctypes.c_size_t()
        return getattr(self._library, f"answer_{what}")(handle, count)[:count.value]

    def _floats(self, what: str, handle: int) -> np.ndarray:
        count = ctypes.c_size_t()
        values = getattr(self._library, f"answer_{what}")(handle, count)
        return np.ctypeslib.as_array(values, (count.value,)).copy() if count.value else np.empty(0, np.float32)


def _prediction(one: _library.PredictionFields) -> Prediction:
    box = (one.left, one.top, one.width, one.height) if one.has_box else None
    return Prediction(one.index, one.label.decode(), one.probability, one.logit, one.id.decode(), box)


def _map(one: _library.MapFields) -> Map:
    return Map(np.ctypeslib.as_array(one.values, (one.rows, one.columns)).copy(), one.method.decode(), one.layer,
               one.head.decode(), one.class_index, one.label.decode(), bool(one.is_signed),
               (one.left, one.top, one.width, one.height), json.loads(one.record))


_MOST_OPEN = 2
_opened: collections.OrderedDict[str, Model] = collections.OrderedDict()
_lock = threading.Lock()
atexit.register(_opened.clear)


def _model(model: Any, options: dict[str, Any]) -> Model:
    """An open model; those that a name or a file means, and the last two of them, stay open."""
    if isinstance(model, Model):
        if any(value is not None for value in options.values()):
            raise InvalidArgumentError("the model is open already: its options are given to Model(...)")
        return model
    if model is not None and not isinstance(model, (str, os.PathLike)):
        return Model(model, **options)
    key = repr((str(model), sorted(options.items(), key=lambda item: item[0])))
    with _lock:
        if key not in _opened:
            _opened[key] = Model(model, **options)
            if len(_opened) > _MOST_OPEN:
                _opened.popitem(last=False)
        _opened.move_to_end(key)
        return _opened[key]


def classify(pictures: PictureLike | Iterable[PictureLike], *, model: Any = None, attn: str | None = None, topk: int = 5,
             on_error: OnError = "fail", **options: Any) -> Any:
    """Classes of pictures, as `hydrascope classify` finds them: an `Answer` of one, a list of several.

    A picture is a path, the bytes of a file, a PIL image, an array uint8 (H, W, 3) or a tensor uint8, also (3, H, W).
    `model` is what `Model` takes, or one. Options are those of the command line: `img_size=384`, `native=True`.
    """
    return _model(model, {"attn": attn, **options}).classify(pictures, topk=topk, on_error=on_error)


def explain(pictures: PictureLike | Iterable[PictureLike], *, model: Any = None, attn: str | None = None,
            classes: Sequence[str | int] | str | int = (), topk: int | None = None, on_error: OnError = "fail",
            **options: Any) -> Any:
    """The same with `maps` of what the prediction rests on, as `hydrascope visualize --save-raw` writes them; `method`,
    `layer` and `head` say which."""
    if not isinstance(model, Model):
        options["maps"] = True
    return _model(model, {"attn": attn, **options}).explain(pictures, classes=classes, topk=topk, on_error=on_error)


def embed(pictures: PictureLike | Iterable[PictureLike], *, model: Any = None, attn: str | None = None,
          **options: Any) -> np.ndarray:
    """What the classifier's head is given, timm's `forward_head(pre_logits=True)`: float32 (embed_dim) of one picture,
    (n, embed_dim) of several."""
    if not isinstance(model, Model):
        options["embeddings"] = True
    return _model(model, {"attn": attn, **options}).embed(pictures)
