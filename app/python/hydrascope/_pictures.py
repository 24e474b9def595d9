"""What can stand for a picture, as the library takes it."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np

from . import _library
from .errors import DecodeError, Error, InvalidArgumentError, TooLargeError, UnreadableError, make_error

if TYPE_CHECKING:
    import PIL.Image
    import torch


class Readable(Protocol):
    """A file that is open for reading bytes, or what is like one."""

    def read(self) -> bytes: ...


PictureLike = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, mmap.mmap, Readable, np.ndarray, "PIL.Image.Image",
                    "torch.Tensor"]

_IN_MEMORY = (bytes, bytearray, memoryview, mmap.mmap)
_NOTHING = np.zeros(1, np.uint8)


def is_one(pictures: object) -> bool:
    """Whether this is one picture, not several."""
    if isinstance(pictures, (str, os.PathLike, *_IN_MEMORY)) or _is_pil(pictures) or hasattr(pictures, "read"):
        return True
    return (isinstance(pictures, np.ndarray) or _is_tensor(pictures)) and pictures.ndim < 4  # type: ignore[attr-defined]


def one_by_one(pictures: PictureLike | Iterable[PictureLike]) -> Iterator[Any]:
    if is_one(pictures):
        return iter([pictures])
    if isinstance(pictures, Mapping) or not isinstance(pictures, Iterable):
        raise InvalidArgumentError(f"expected a picture or several, found {type(pictures).__name__}")
    return iter(pictures)


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
    """What the program makes of the file that the image is: upright, transparent pixels over white, of 16 bits the high
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


def _of_tensor(tensor: Any) -> np.ndarray:
    import torch
    if tensor.dtype != torch.uint8 or tensor.layout != torch.strided or tensor.is_meta:
        where = " on meta" if tensor.is_meta else "" if tensor.layout == torch.strided else f" {tensor.layout}"
        raise InvalidArgumentError("expected pixels as uint8 (H, W, 3) or (3, H, W), found "
                                   f"{tensor.dtype} {tuple(tensor.shape)}{where}{_way_out(tensor)}")
    pixels = tensor.detach().cpu().numpy()
    is_planar = pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3)
    return pixels.transpose(1, 2, 0) if is_planar else pixels


def _pixels(value: Any) -> np.ndarray:
    """uint8 (H, W, 3) whose rows may lie anywhere; a view where that is possible."""
    if _is_pil(value):
        value = _of_pil(value)
    elif _is_tensor(value):
        value = _of_tensor(value)
    if value.dtype != np.uint8 or value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[2] not in (1, 3)) or \
            0 in value.shape:
        raise InvalidArgumentError("expected pixels as uint8 (H, W, 3), of a tensor also (3, H, W), found "
                                   f"{value.dtype} {value.shape}{_way_out(value)}")
    if value.ndim == 2:
        value = value[:, :, None]
    value = np.broadcast_to(value, (*value.shape[:2], 3))
    is_packed = value.strides[1:] == (3, 1) and value.strides[0] != 0
    return value if is_packed else np.ascontiguousarray(value)


def _encoded(value: Any) -> np.ndarray:
    """The bytes of a file, where they lie if they lie together."""
    view = memoryview(value)
    if view.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(view if view.c_contiguous else view.tobytes(), np.uint8)


def fill(picture: _library.Picture, value: Any, number: int) -> list[object]:
    """Describes `value` to the library; returns what must be kept until it has answered."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fsencode(value)
        if b"\0" in path:
            raise InvalidArgumentError(f"expected a path without a zero byte, found {value!r}")
        picture.path = path
        return [path]
    picture.name = name = f"picture {number}".encode()
    if hasattr(value, "read") and not isinstance(value, mmap.mmap):
        given = value
        try:
            value = value.read()
        except OSError as error:
            raise UnreadableError(f"the file cannot be read: {error}") from error
        if not isinstance(value, _IN_MEMORY):
            raise InvalidArgumentError(f"expected a file that is read as bytes, found {type(given).__name__}, "
                                       f"which gives {type(value).__name__}")
    if isinstance(value, _IN_MEMORY):
        encoded = _encoded(value)
        # No bytes are an empty file; a null pointer would be no picture.
        kept = encoded if encoded.size else _NOTHING
        picture.bytes, picture.num_bytes = kept.ctypes.data_as(ctypes.c_void_p), encoded.size
        return [name, kept]
    if not (isinstance(value, np.ndarray) or _is_pil(value) or _is_tensor(value)):
        raise InvalidArgumentError("expected a path, bytes, a file, a PIL image, an array or a tensor, found "
                                   f"{type(value).__name__}")
    pixels = _pixels(value)
    picture.pixels = pixels.ctypes.data_as(ctypes.c_void_p)
    picture.height, picture.width, _ = pixels.shape
    picture.row_stride = pixels.strides[0]
    return [name, pixels]


def described(pictures: list[Any], first: int, *, is_strict: bool) -> tuple[Any, list[object], dict[int, Error]]:
    """For the library, what must be kept until it has answered, and what is wrong with those that it cannot be asked about,
    which is raised where `is_strict`; `first` is the number of the first."""
    given = (_library.Picture * len(pictures))()
    kept: list[object] = []
    errors: dict[int, Error] = {}
    for place, (one, value) in enumerate(zip(given, pictures)):
        try:
            kept.append(fill(one, value, first + place))
        except Error as error:
            named = make_error(error.code, f"{error} (picture {first + place})")
            if is_strict:
                raise named from error
            errors[place] = named
            one.bytes, one.num_bytes = _NOTHING.ctypes.data_as(ctypes.c_void_p), 0
    return given, kept, errors
