"""libhydrascope.so by ctypes: its structures, and where it and the program lie."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Iterable, Mapping
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from .errors import Error, InvalidArgumentError, make_error

MAPS, EMBEDDING = 1, 2
PROGRAM = ("bin/hydrascope", "hydrascope")


class Picture(Structure):
    _fields_ = [("name", c_char_p), ("path", c_char_p), ("bytes", c_void_p), ("num_bytes", c_size_t),
                ("pixels", c_void_p), ("height", c_int64), ("width", c_int64), ("row_stride", c_int64)]


class PredictionFields(Structure):
    _fields_ = [("index", c_int64), ("id", c_char_p), ("label", c_char_p), ("probability", c_double),
                ("logit", c_double), ("has_box", c_int), ("left", c_int64), ("top", c_int64), ("width", c_int64),
                ("height", c_int64)]


class MapFields(Structure):
    _fields_ = [("values", POINTER(c_float)), ("rows", c_int64), ("columns", c_int64), ("left", c_double),
                ("top", c_double), ("width", c_double), ("height", c_double), ("method", c_char_p), ("layer", c_int64),
                ("head", c_char_p), ("class_index", c_int64), ("label", c_char_p), ("is_signed", c_int),
                ("record", c_char_p)]


# Name -> result, arguments.
_FUNCTIONS = {
    "version": (c_char_p, []),
    "name_options": (None, [c_int]),
    "error_code": (c_char_p, []),
    "error_field": (c_char_p, []),
    "error_subject": (c_char_p, []),
    "error_text": (c_char_p, []),
    "error_hint": (c_char_p, []),
    "registry": (c_char_p, []),
    "layers": (c_char_p, [c_char_p, POINTER(c_char_p), c_size_t]),
    "config": (c_char_p, [c_char_p]),
    "pictures": (POINTER(c_char_p), [c_char_p, POINTER(c_size_t)]),
    "open": (c_void_p, [POINTER(c_char_p), c_size_t, c_uint]),
    "close": (None, [c_void_p]),
    "facts": (c_char_p, [c_void_p]),
    "notes": (c_char_p, [c_void_p]),
    "layers_done": (c_int64, [c_void_p, POINTER(c_int64)]),
    "label": (c_char_p, [c_void_p, c_int64]),
    "ask": (c_int, [c_void_p, POINTER(Picture), c_size_t, POINTER(c_char_p), c_size_t, c_uint, POINTER(c_void_p)]),
    "free": (None, [c_void_p]),
    "draw": (c_void_p, [c_void_p, POINTER(c_size_t), c_size_t, POINTER(Picture), POINTER(c_char_p), c_size_t, POINTER(c_int64),
                        POINTER(c_int64)]),
    "answer_error_code": (c_char_p, [c_void_p]),
    "answer_error_text": (c_char_p, [c_void_p]),
    "answer_record": (c_char_p, [c_void_p]),
    "answer_top": (POINTER(PredictionFields), [c_void_p, POINTER(c_size_t)]),
    "answer_logits": (POINTER(c_float), [c_void_p, POINTER(c_size_t)]),
    "answer_embedding": (POINTER(c_float), [c_void_p, POINTER(c_size_t)]),
    "answer_maps": (POINTER(MapFields), [c_void_p, POINTER(c_size_t)]),
}


def find(*places: str) -> Path:
    """The first of `places` that exists below HYDRASCOPE_TREE, or else below this package."""
    tree = Path(os.environ.get("HYDRASCOPE_TREE") or Path(__file__).resolve().parent)
    for place in places:
        if (tree / place).exists():
            return tree / place
    raise Error(f"the package is not complete: {tree / places[0]} is missing; HYDRASCOPE_TREE names another folder "
                "that holds it")


def program() -> Path:
    """The command-line program, which runs with the PyTorch that is here."""
    from . import _torch
    _torch.check_beside()
    return find(*PROGRAM)


@functools.cache
def library() -> ctypes.CDLL:
    """The library, whose functions lack their prefix here: `library().ask`."""
    from . import _torch
    _torch.check()
    # As the program does: OpenMP's threads that spin while they wait take processors from those that decode. Read when
    # PyTorch is loaded, so it changes nothing where that is there already.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    path = str(find("lib/libhydrascope.so.0", "libhydrascope.so.0"))
    try:
        loaded = ctypes.CDLL(path)
    except OSError:
        try:
            import torch  # noqa: F401  # which does not lie beside the package, perhaps
            loaded = ctypes.CDLL(path)
        except (ImportError, OSError) as error:
            raise _torch.unloadable(error) from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, f"hydrascope_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(loaded, name, function)
    loaded.name_options(1)  # as Python's keywords
    return loaded


def last_error() -> Error:
    """The error of the last call of this thread that failed."""
    said = {part: getattr(library(), f"error_{part}")().decode(errors="replace") for part in ("code", "field", "text", "hint")}
    return make_error(**said, subject=os.fsdecode(library().error_subject()))


def _answer(text: bytes | None) -> Any:
    if text is None:
        raise last_error()
    return json.loads(text)


@functools.cache
def registry() -> dict[str, Any]:
    """`mechanisms` and `position_rules`, as `hydrascope models info NAME --format json` prints them, the usual `config` of a
    transformer, and the files of `samples`."""
    return _answer(library().registry())


def mechanism(name: str) -> dict[str, Any]:
    return next(one for one in registry()["mechanisms"] if one["mechanism"] == name)


def pictures(word: bytes) -> list[bytes]:
    """The pictures that a word names as an input of `classify`."""
    count = c_size_t()
    paths = library().pictures(word, count)
    if not paths:
        raise last_error()
    return paths[:count.value]


def layers(before: list[Any], **options: Any) -> list[dict[str, Any]]:
    """Each layer's `mechanism` and all of its `options`, after `attn` and `set`."""
    words = words_of(options)
    return _answer(library().layers(json.dumps(before).encode(), c_words(words), len(words)))


def config(file: str) -> dict[str, Any]:
    """A checkpoint's configuration, with all fields."""
    return _answer(library().config(os.fsencode(file)))


# Keywords that are no options of the command line.
_KEYWORDS = ("arch", "attn", "classes", "embeddings", "maps", "model", "on_error", "pictures", "progress", "topk")
_REPEATED = ("--class", "--input", "--set", "--attn-opt", "--rel-pos-opt", "--memory-opt")


def _values_of(value: Any) -> list[Any]:
    """Words of one key of `set`: each of several words, all of several numbers."""
    if isinstance(value, bool):
        return ["on" if value else "off"]
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    return list(value) if all(isinstance(one, str) for one in value) else [",".join(map(str, value))]


def words_of(options: dict[str, Any]) -> list[str]:
    """Keyword arguments as options of the command line: img_size=512 -> --img-size=512, native=True -> --native.

    False and None leave an option out. set={"overview": "on"} is --set=overview=on. Several values of an option that may be repeated are repeated, those of others are
    joined by commas, and the two of a size by an x. Arrays and numbers of NumPy are taken as Python's.
    """
    words: list[str] = []
    for name, value in options.items():
        if meant := [one for one in _KEYWORDS if one != name and one.replace("_", "") == name.replace("_", "").lower()]:
            raise InvalidArgumentError(f"unknown option {name}\nhint: did you mean {meant[0]}?")
        option = "--" + name.rstrip("_").replace("_", "-")
        if hasattr(value, "tolist"):
            value = value.tolist()
        if value is None or value is False:
            continue
        if option == "--set" and isinstance(value, Mapping):
            value = [f"{key}={one}" for key, each in value.items() for one in _values_of(each)]
        if isinstance(value, (Mapping, bytes, bytearray)):
            raise InvalidArgumentError(f"expected a word, a number or several of them, found {type(value).__name__} ({option})")
        if value is True:
            words.append(option)
        elif isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
            words.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
        elif option in _REPEATED:
            words += [f"{option}={one}" for one in value]
        else:
            words.append(f"{option}=" + ("x" if option == "--img-size" else ",").join(map(str, value)))
    return words


def c_words(words: list[str]) -> ctypes.Array[c_char_p]:
    for word in words:
        if "\0" in word:
            raise InvalidArgumentError(f"expected words without a zero byte, found {word!r}")
    return (c_char_p * len(words))(*(word.encode(errors="surrogateescape") for word in words))
