"""What can stand for a picture, as the library takes it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _library
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import PIL.Image
    import torch

PictureLike = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, np.ndarray, "PIL.Image.Image", "torch.Tensor"]


def is_one(pictures: object) -> bool:
    """Whether this is one picture, not several."""
    if isinstance(pictures, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_pil(pictures):
        return True
    return (isinstance(pictures, np.ndarray) or _is_tensor(pictures)) and pictures.ndim < 4  # type: ignore[attr-defined]


def as_list(pictures: PictureLike | Iterable[PictureLike]) -> list[Any]:
    return [pictures] if is_one(pictures) else list(pictures)  # type: ignore[arg-type]


def _is_pil(value: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def _is_tensor(value: object) -> bool:
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def _pixels(value: Any) -> np.ndarray:
    """uint8 (H, W, 3) whose rows may lie anywhere; a view where that is possible."""
    if _is_pil(value):
        from PIL import ImageOps
        value = np.asarray(ImageOps.exif_transpose(value).convert("RGB"))
    elif _is_tensor(value):
        value = value.detach().cpu().numpy()
        if value.ndim == 3 and value.shape[0] in (1, 3) and value.shape[2] not in (1, 3):
            value = value.transpose(1, 2, 0)
    if value.dtype != np.uint8 or value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[2] not in (1, 3)) or \
            0 in value.shape:
        raise InvalidArgumentError("expected pixels as uint8 (H, W, 3), of a tensor also (3, H, W), found "
                                   f"{value.dtype} {value.shape}")
    if value.ndim == 2:
        value = value[:, :, None]
    value = np.broadcast_to(value, (*value.shape[:2], 3))
    is_packed = value.strides[1:] == (3, 1) and value.strides[0] != 0
    return value if is_packed else np.ascontiguousarray(value)


def fill(picture: _library.Picture, value: Any, number: int) -> list[object]:
    """Describes `value` to the library; returns what must be kept until it has answered."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fsencode(value)
        picture.path = path
        return [path]
    picture.name = name = f"picture {number}".encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        encoded = np.frombuffer(value, np.uint8) if len(value) else np.zeros(1, np.uint8)
        picture.bytes, picture.num_bytes = encoded.ctypes.data_as(ctypes.c_void_p), len(value)
        return [name, encoded]
    if not (isinstance(value, np.ndarray) or _is_pil(value) or _is_tensor(value)):
        raise InvalidArgumentError("expected a path, bytes, a PIL image, an array or a tensor, found "
                                   f"{type(value).__name__}")
    pixels = _pixels(value)
    picture.pixels = pixels.ctypes.data_as(ctypes.c_void_p)
    picture.height, picture.width, _ = pixels.shape
    picture.row_stride = pixels.strides[0]
    return [name, pixels]
