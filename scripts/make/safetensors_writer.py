"""Writes safetensors files whose bytes depend on nothing but their content.

Python's `safetensors.save_file` lays tensors out deterministically but writes `__metadata__` in the order of a hash map, so two runs differ.
This writer keeps its layout (widest dtype first, then name; header padded with spaces to a multiple of 8) and sorts the metadata. Format:
8 bytes little-endian header length, JSON header, buffer (https://github.com/huggingface/safetensors#format).
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

DTYPE_NAMES = {np.dtype("uint8"): "U8", np.dtype("float16"): "F16", np.dtype("float32"): "F32"}


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes uint8, float16 or float32 `tensors` and `metadata` to `path`, whole or not at all."""
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in ordered:
            file.write(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
    temporary.replace(path)
