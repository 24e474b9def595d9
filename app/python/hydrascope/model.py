"""A model that stays open."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from . import _library, _pictures
from ._pictures import Described, PictureLike
from ._progress import Progress
from .answers import Answer, answer_of
from .errors import Error, HydrascopeWarning, InvalidArgumentError, make_error, warn

OnError = Literal["fail", "skip"]

# Several pictures are asked in pieces, because a call into the library cannot be interrupted; enough at once that the
# model never waits for the next piece.
_PIECE, _PIECES_AT_ONCE = 32, 3
_LOOK_FOR_NOTES = 0.1
"""Seconds, while pictures are computed."""
_NO_HEAD = "the model has no classifier (num_classes=0): it can embed, and nothing else"


class Model:
    """A model that is opened once; it may be asked from several threads, whose pictures are classified together.

    `model` is a name, file or folder as of `--model`, an instance of a timm vision transformer, or with `arch` a state
    dict of exactly that architecture. Options are those of the command line: `Model(attn="hydra:last2", img_size=384,
    precision="bfloat16")`. With `maps=True`, or with one of `method`, `layer`, `head` and `mapless`, it can explain, with
    `embeddings=True` embed, which an instance without a classifier (`num_classes=0`) can, too.

    It belongs to the process that opened it: after `os.fork` the child opens its own, and it cannot be copied or pickled.
    """

    _process: int | None = None

    def __init__(self, model: Any = None, *, attn: str | None = None, maps: bool = False, embeddings: bool = False,
                 arch: str | None = None, **options: Any) -> None:
        self._handle: int | None = None
        self._process = os.getpid()
        self._asking = 0
        self._is_closing = False
        self._changed = threading.Condition()
        maps = maps or any(options.get(name) is not None for name in ("method", "layer", "head", "mapless"))
        self._wants = _library.MAPS * maps + _library.EMBEDDING * embeddings
        is_path = model is None or isinstance(model, (str, os.PathLike))
        self._has_head = is_path or getattr(model, "num_classes", None) != 0
        if not self._has_head and self._wants != _library.EMBEDDING:
            raise InvalidArgumentError(_NO_HEAD)
        if is_path and arch is not None:
            raise InvalidArgumentError("names the architecture of a state dict (arch)")
        with contextlib.ExitStack() as opening:
            if not is_path:
                # The library holds what it needs of the file, once it is open.
                folder = opening.enter_context(tempfile.TemporaryDirectory(prefix="hydrascope-"))
                model, options = _in_file(model, arch, Path(folder) / "model.safetensors", options)
            words = _library.words_of({"model": model, "attn": attn, **options})
            self._library = _library.library()
            self._handle = self._library.open(_library.c_words(words), len(words), self._wants)
            if not self._handle:
                raise _library.last_error()
        self.facts: dict[str, Any] = json.loads(self._library.facts(self._handle))
        """name, num_classes, embed_dim, attention, device, precision, transform, maps, notes, ..."""
        self._notes_said = 0
        try:
            self._say_notes(self._handle)
        except HydrascopeWarning:
            self.close()
            raise

    def close(self) -> None:
        """Frees the model; what is being asked is answered first."""
        if self._process != os.getpid():  # the threads that would have to end are the other process's
            return
        with self._changed:
            self._is_closing = True
            self._changed.wait_for(lambda: self._asking == 0)
            handle, self._handle = self._handle, None
        if handle:
            self._library.close(handle)

    def __repr__(self) -> str:
        return f"<Model: {self.facts['name']}, {self.facts['attention']}, {self.facts['num_classes']} classes>"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a hydrascope.Model cannot be copied or pickled: open another where it is needed")

    def label(self, index: int) -> str:
        with self._opened() as handle:
            text = self._library.label(handle, int(index))
        if text is None:
            raise IndexError(index)
        return text.decode()

    @overload
    def classify(self, pictures: PictureLike, *, topk: int = 5, on_error: OnError = "fail", progress: bool | None = None) -> Answer:  # type: ignore[overload-overlap]
        ...

    @overload
    def classify(self, pictures: Iterable[PictureLike], *, topk: int = 5, on_error: OnError = "fail", progress: bool | None = None) -> list[Answer]: ...

    def classify(self, pictures: PictureLike | Iterable[PictureLike], *, topk: int = 5,
                 on_error: OnError = "fail", progress: bool | None = None) -> Answer | list[Answer]:
        """The classes of each picture: an `Answer` of one, a list of several. With `on_error="skip"` a picture that
        failed has its `error` instead of ending the call. A call of more than two seconds says how far it is where somebody
        looks at `sys.stderr`, unless `progress` says otherwise."""
        return self._ask(pictures, 0, {"topk": topk}, on_error, progress)

    @overload
    def explain(self, pictures: PictureLike, *, classes: Sequence[str | int] | str | int = (),  # type: ignore[overload-overlap]
                topk: int | None = None, method: Any = None, layer: Any = None, head: Any = None,
                on_error: OnError = "fail", progress: bool | None = None) -> Answer: ...

    @overload
    def explain(self, pictures: Iterable[PictureLike], *, classes: Sequence[str | int] | str | int = (),
                topk: int | None = None, method: Any = None, layer: Any = None, head: Any = None,
                on_error: OnError = "fail", progress: bool | None = None) -> list[Answer]: ...

    def explain(self, pictures: PictureLike | Iterable[PictureLike], *, classes: Sequence[str | int] | str | int = (),
                topk: int | None = None, method: Any = None, layer: Any = None, head: Any = None,
                on_error: OnError = "fail", progress: bool | None = None) -> Answer | list[Answer]:
        """The same with `maps`: of the predicted class, or of `classes` and the `topk` best; of all maps that the model
        was opened for, or some."""
        of_class = list(classes) if isinstance(classes, Iterable) and not isinstance(classes, str) else [classes]
        # A number of Python is an index, also where classes have numbers for names.
        of_class = [f"index:{one}" if isinstance(one, Integral) else one for one in of_class]
        options = {"class": of_class, "topk": topk, "method": method, "layer": layer, "head": head}
        return self._ask(pictures, _library.MAPS, options, on_error, progress)

    def embed(self, pictures: PictureLike | Iterable[PictureLike], *, progress: bool | None = None) -> np.ndarray:
        """The input of the classifier's head: float32 (embed_dim) of one picture, (n, embed_dim) of several."""
        answers = self._ask(pictures, _library.EMBEDDING, {}, "fail", progress)
        if isinstance(answers, Answer):
            return answers.embedding
        return np.stack([one.embedding for one in answers]) if answers \
            else np.empty((0, self.facts["embed_dim"]), np.float32)

    @contextlib.contextmanager
    def _opened(self, *, is_part: bool = False) -> Iterator[int]:
        """The library's model, which stays open so long; a part of what is being asked is asked of a model that is being
        closed, too."""
        if self._process != os.getpid():
            raise InvalidArgumentError("the model was opened by the process that this one was forked from: open it here")
        with self._changed:
            if self._handle is None or (self._is_closing and not is_part):
                raise InvalidArgumentError("the model is closed")
            self._asking += 1
            handle = self._handle
        try:
            yield handle
        finally:
            with self._changed:
                self._asking -= 1
                self._changed.notify_all()

    def _ask(self, pictures: Any, wants: int, options: dict[str, Any], on_error: OnError,
             progress: bool | None) -> Any:
        if on_error not in ("fail", "skip"):
            raise InvalidArgumentError(f"expected fail or skip, found '{on_error}' (on_error)")
        if not self._has_head and wants != _library.EMBEDDING:
            raise InvalidArgumentError(_NO_HEAD)
        words = _library.words_of(options)
        is_one, total, each = _pictures.gather(pictures)
        with self._opened():
            shown = Progress(total, progress)
            try:
                answers = self._answers(each, words, wants, shown, is_one=is_one, is_strict=on_error == "fail")
            finally:
                shown.end()
        return answers[0] if is_one else answers

    def _say_notes(self, handle: int) -> None:
        """Warns of what the program has noted since the last time."""
        notes = json.loads(self._library.notes(handle))
        with self._changed:
            said, self._notes_said = self._notes_said, len(notes)
        for note in notes[said:]:
            warn(note)

    def _answers(self, pictures: Iterator[Any], words: list[str], wants: int, shown: Progress, *, is_one: bool,
                 is_strict: bool) -> list[Answer]:
        answers: list[Answer] = []

        def take(asked: Future[list[Answer]]) -> None:
            is_done = False
            while not is_done:  # a large picture takes minutes, and what is to be said of it is said before
                is_done = bool(futures.wait([asked], _LOOK_FOR_NOTES).done)
                with self._opened(is_part=True) as handle:
                    layers = ctypes.c_int64()
                    layers_done = self._library.layers_done(handle, layers)
                    self._say_notes(handle)
                shown.show(len(answers), (layers_done, layers.value))
            piece = asked.result()
            for answer in piece:
                if answer.error is not None and is_strict:
                    raise answer.error
            answers.extend(piece)

        threads = ThreadPoolExecutor(_PIECES_AT_ONCE, "hydrascope")
        waiting: deque[Future[list[Answer]]] = deque()
        asked_so_far = 0
        is_stopped = False
        try:
            while piece := list(itertools.islice(pictures, _PIECE)):
                if len(waiting) == _PIECES_AT_ONCE:
                    take(waiting.popleft())
                given = [_described(one, asked_so_far + place, is_strict) for place, one in enumerate(piece)]
                waiting.append(threads.submit(self._asked, given, words, wants, is_one))
                asked_so_far += len(piece)
            while waiting:
                take(waiting.popleft())
        except (KeyboardInterrupt, HydrascopeWarning):  # what the threads are at is answered behind the scenes
            is_stopped = True
            raise
        finally:
            threads.shutdown(wait=not is_stopped, cancel_futures=True)
        return answers

    def _asked(self, given: list[Described | Answer], words: list[str], wants: int, is_one: bool) -> list[Answer]:
        """A picture that has failed is not asked about."""
        asked = [one for one in given if isinstance(one, Described)]
        fields = (_library.Picture * len(asked))(*(one.fields for one in asked))
        handles = (ctypes.c_void_p * len(asked))()
        with self._opened(is_part=True) as model:
            if self._library.ask(model, fields, len(asked), _library.c_words(words), len(words), wants, handles) != 0:
                raise _library.last_error()
        # Pictures in memory are kept for drawing where the caller waits for one alone.
        found = iter([answer_of(handle, os.fsdecode(one.fields.path) if one.fields.path else None,
                                one if is_one or one.fields.path else None) for one, handle in zip(asked, handles)])
        return [next(found) if isinstance(one, Described) else one for one in given]


def _described(picture: Any, number: int, is_strict: bool) -> Described | Answer:
    """The failure of what the library cannot be asked about, which is raised where `is_strict`."""
    try:
        return _pictures.describe(picture, number)
    except Error as error:
        named = make_error(error.code, f"{error} (picture {number})")
        if is_strict:
            raise named from error
        record = {"schema": 2, "input": f"picture {number}", "error": {"code": named.code, "message": str(named)}}
        return Answer(record, error=named)


def _in_file(model: Any, arch: str | None, file: Path, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Saves an instance or a state dict; returns the model and the options that open it."""
    from .nn import checkpoints
    checkpoints.save(model, file, arch=arch)
    if checkpoints.is_state(model):
        return (file, options) if arch is None else (arch, {**options, "checkpoint": file})
    return file, options
