"""The forms of a picture that the library takes."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, Union

import numpy as np

from . import _library
from .errors import DecodeError, Error, InvalidArgumentError, TooLargeError, UnreadableError

if TYPE_CHECKING:
    import PIL.Image
    import torch


class Readable(Protocol):
    """A file that is open for reading bytes, or what is like one."""

    def read(self) -> bytes: ...


PictureLike = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, mmap.mmap, Readable, np.ndarray, "PIL.Image.Image",
                    "torch.Tensor"]

_WORDS = (str, os.PathLike)
_IN_MEMORY = (bytes, bytearray, memoryview, mmap.mmap)
_NOTHING = np.zeros(1, np.uint8)


class Described(NamedTuple):
    """A picture as the library takes it, and what must be kept until it has answered."""

    fields: _library.Picture
    kept: list[Any]


def _named(word: Any) -> list[Any]:
    """The pictures that a path, a folder, a pattern or a list's @name names on the command line."""
    path = os.fsencode(word)
    if b"\0" in path:
        raise InvalidArgumentError(f"expected a path without a zero byte, found {word!r}")
    return [os.fspath(word)] if os.path.isfile(path) else [os.fsdecode(one) for one in _library.pictures(path)]


def _each(pictures: Iterable[Any]) -> Iterator[Any]:
    """In the place of a word that names nothing there is its error."""
    for one in pictures:
        try:
            yield from _named(one) if isinstance(one, _WORDS) else [one]
        except Error as error:
            yield error


def gather(pictures: PictureLike | Iterable[PictureLike]) -> tuple[bool, int | None, Iterator[Any]]:
    """Whether it is one picture, how many there are where that is known, and each of them."""
    if isinstance(pictures, _WORDS):
        named = _named(pictures)
        return named == [os.fspath(pictures)], len(named), iter(named)
    is_pixels = isinstance(pictures, np.ndarray) or _is_tensor(pictures)
    if isinstance(pictures, _IN_MEMORY) or _is_pil(pictures) or hasattr(pictures, "read") or (is_pixels and pictures.ndim < 4):  # type: ignore[union-attr]
        return True, 1, iter([pictures])
    if isinstance(pictures, Mapping) or not isinstance(pictures, Iterable):
        raise InvalidArgumentError(f"expected a picture or several, found {type(pictures).__name__}")
    is_counted = isinstance(pictures, Sized) and all(os.path.isfile(one) for one in pictures if isinstance(one, _WORDS))
    return False, len(pictures) if is_counted else None, _each(pictures)  # type: ignore[arg-type]


def _is_pil(value: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def _is_tensor(value: object) -> bool:
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def _over_white(rgba: np.ndarray) -> np.ndarray:
    """uint8 (H, W, 4) -> (H, W, 3), rounded to nearest as the program rounds."""
    samples = rgba.astype(np.uint16)
    colour, alpha = samples[:, :, :3], samples[:, :, 3:]
    return ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def _of_pil(image: Any) -> np.ndarray:
    """The picture that the program makes of the image's file: upright, transparent pixels over white, of 16 bits the high
    byte."""
    from PIL import Image, ImageOps
    try:
        image.load()  # an image that was opened is decoded here
    except Image.DecompressionBombError as error:
        raise TooLargeError(str(error)) from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise DecodeError(f"Pillow cannot decode it: {error}") from error
    form, mode = image.format, image.mode
    upright = ImageOps.exif_transpose(image)
    # Pillow's versions differ in the mode of a grey file of 16 bits.
    if mode.startswith("I;16") or (mode == "I" and form in ("PNG", "PPM")):
        samples = np.asarray(upright)
        grey = np.rint(samples / 65535 * 255) if form == "PPM" else samples >> 8
        key = image.info.get("transparency")
        return np.where(samples == key, 255, grey).astype(np.uint8) if key is not None else grey.astype(np.uint8)
    if mode in ("I", "F", "LAB"):
        raise InvalidArgumentError(f"an image of mode {mode} says nothing of its black and white: convert it to RGB")
    if mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        return _over_white(np.asarray((upright.convert("LA") if mode == "La" else upright).convert("RGBA")))
    return np.asarray(upright.convert("RGB"))


def _way_out(pixels: Any) -> str:
    """The way to make pixels of this array or tensor, where its type or shape tells."""
    kind = str(pixels.dtype)
    if "float" in kind:
        return "; numbers from 0 to 1 become pixels when they are multiplied by 255, rounded and converted to uint8"
    if kind.endswith("int16"):
        return "; of 16 bits the high byte is taken (x >> 8, as uint8)"
    if kind.endswith("uint8") and pixels.ndim == 3 and pixels.shape[2] == 4:
        return "; PIL.Image.fromarray makes a picture of red, green, blue and alpha"
    return ""


def _pixels(value: Any) -> np.ndarray:
    """uint8 (H, W, 3) whose rows may lie anywhere; a view where that is possible."""
    def refuse(what: str = "") -> NoReturn:
        raise InvalidArgumentError("expected pixels as uint8 (H, W, 3), of a tensor also (3, H, W), found "
                                   f"{value.dtype} {tuple(value.shape)}{what}{_way_out(value)}")
    if _is_pil(value):
        value = _of_pil(value)
    elif _is_tensor(value):
        if str(value.dtype) != "torch.uint8" or str(value.layout) != "torch.strided" or value.is_meta:
            refuse(" on meta" if value.is_meta else f" {value.layout}")
        value = value.detach().cpu().numpy()
        if value.ndim == 3 and value.shape[0] in (1, 3) and value.shape[2] not in (1, 3):
            value = value.transpose(1, 2, 0)
    if value.dtype != np.uint8 or value.ndim not in (2, 3) or value.shape[2:] not in ((), (1,), (3,)) or 0 in value.shape:
        refuse()
    value = np.broadcast_to(value[:, :, None] if value.ndim == 2 else value, (*value.shape[:2], 3))
    is_packed = value.strides[1:] == (3, 1) and value.strides[0] != 0
    return value if is_packed else np.ascontiguousarray(value)


def describe(value: Any, number: int) -> Described:
    """For one picture; in a record that is not of a file `number` is its name."""
    if isinstance(value, Error):
        raise value
    fields = _library.Picture()
    if isinstance(value, _WORDS):
        fields.path = path = os.fsencode(value)
        return Described(fields, [path])
    fields.name = name = f"picture {number}".encode()
    if hasattr(value, "read") and not isinstance(value, mmap.mmap):
        given = type(value).__name__
        try:
            value = value.read()
        except OSError as error:
            raise UnreadableError(f"the file cannot be read: {error}") from error
        if not isinstance(value, _IN_MEMORY):
            raise InvalidArgumentError(f"expected a file that is read as bytes, found {given}, which gives {type(value).__name__}")
    if isinstance(value, _IN_MEMORY):
        view = memoryview(value)
        # No bytes are an empty file; a null pointer would be no picture.
        kept = np.frombuffer(view if view.c_contiguous else view.tobytes(), np.uint8) if view.nbytes else _NOTHING
        fields.bytes, fields.num_bytes = kept.ctypes.data_as(ctypes.c_void_p), view.nbytes
    elif isinstance(value, np.ndarray) or _is_pil(value) or _is_tensor(value):
        kept = _pixels(value)
        fields.pixels, (fields.height, fields.width, _) = kept.ctypes.data_as(ctypes.c_void_p), kept.shape
        fields.row_stride = kept.strides[0]
    else:
        raise InvalidArgumentError("expected a path, bytes, a file, a PIL image, an array or a tensor, found "
                                   f"{type(value).__name__}")
    return Described(fields, [name, kept])
