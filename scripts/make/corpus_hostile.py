"""Files of tests/corpus that must end in one clear line: pictures, and weights.

Step of make_corpus.py; needs Pillow, numpy and torch. A picture's code is that of its record, "any" where decoders may
differ but none may crash, hang or fill the memory; a text is what the line of an unreadable model has to say.
"""

import io
import json
import os
import struct
import zipfile
import zlib

import numpy as np
from corpus_encoders import RGB, bmp, png, png_chunk, tiff, tiff_tags
from corpus_pictures import COLOUR, INDEXED, encode, frame_of, photo

BROKEN, UNKNOWN, LARGE = "decode_failed", "unsupported_format", "too_large"
HUGE = 100_000  # edge of a picture of 30 GB


def png_of(width: int, height: int, data: bytes, depth: int = 8, colour: int = RGB, before: bytes = b"") -> bytes:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + before + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def damaged(data: bytes, at: int) -> bytes:
    return patched(data, at, bytes(byte ^ 0x5A for byte in data[at : at + 50]))


def many_scans(count: int) -> bytes:
    """A progressive JPEG whose first scan comes `count` times."""
    data = encode(photo(64, 64), "JPEG", progressive=True)
    first = data.index(b"\xff\xda")
    end = data.index(b"\xff\xc4", first)
    return data[:end] + data[first:end] * (count - 1) + data[end:]


def pictures() -> dict[str, tuple[bytes, str]]:
    jpeg, rgb = encode(COLOUR, "JPEG", quality=90), np.asarray(COLOUR)
    flat, gif, webp = png(rgb, 8, RGB), encode(INDEXED, "GIF"), encode(COLOUR, "WEBP", quality=90)
    lzw, map_, jp2 = encode(COLOUR, "TIFF", compression="tiff_lzw"), encode(COLOUR, "BMP"), encode(COLOUR, "JPEG2000")
    frame, rows = frame_of(jpeg), zlib.compress(b"".join(b"\0" + row.tobytes() for row in rgb))
    tags, pixels = tiff_tags(19, 11, 8, 2, 3), [rgb.tobytes()]
    whole = {"jpg": jpeg, "png": flat, "gif": gif, "webp": webp, "tif": lzw, "bmp": map_, "jp2": jp2}
    files = {f"half.{kind}": (data[: len(data) // (8 if kind == "gif" else 2)], BROKEN) for kind, data in whole.items()}
    files |= {f"signature.{kind}": (data[:12], BROKEN) for kind, data in whole.items()}
    files["signature.bmp"] = (map_[:12], UNKNOWN)
    siz = jp2.index(b"\xff\x51")
    return files | {
        "empty.jpg": (b"", "empty"), "text.png": (b"hello, I am called holiday.png", UNKNOWN),
        "page.jpg": (b"<!DOCTYPE html><html><body>Not found</body></html>", UNKNOWN),
        "pointer.jpg": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", UNKNOWN),
        "zeros.png": (bytes(4096), UNKNOWN), "picture.avif": (b"\0\0\0\x20ftypavif\0\0\0\0avifmif1miafMA1B", UNKNOWN),
        "picture.heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", UNKNOWN),
        "picture.svg": (b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", UNKNOWN),
        "bomb.png": (png_of(HUGE, HUGE, rows), LARGE), "bomb.jpg": (patched(jpeg, frame + 5, b"\xff\xff\xff\xff"), LARGE),
        "bomb.gif": (patched(gif, 6, b"\xff\xff\xff\xff"), LARGE), "bomb.bmp": (bmp(HUGE, HUGE, 24, bytes(64)), LARGE),
        "bomb.tif": (tiff(tiff_tags(HUGE, HUGE, 8, 2, 3), pixels), LARGE),
        "bomb.jp2": (patched(patched(jp2, siz + 6, struct.pack(">II", HUGE, HUGE)), jp2.index(b"ihdr") + 4, struct.pack(">II", HUGE, HUGE)), LARGE),
        "bomb.ppm": (b"P6 100000 100000 255\n" + bytes(64), LARGE), "zip_bomb.png": (png_of(19, 11, zlib.compress(bytes(1 << 24), 9)), "any"),
        "zip_bomb_text.png": (png_of(19, 11, rows, before=png_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 24), 9))), "any"),
        "no_width.png": (png_of(0, 11, rows), BROKEN), "no_width.jpg": (patched(jpeg, frame + 7, b"\0\0"), BROKEN),
        "no_width.bmp": (bmp(0, 11, 24, b""), BROKEN), "no_width.ppm": (b"P6 0 11 255\n", BROKEN),
        "negative.bmp": (bmp(-19, 11, 24, bytes(660)), BROKEN), "checksum.png": (patched(flat, flat.index(b"IDAT") + 8, b"\x55"), BROKEN),
        "short_rows.png": (png_of(19, 11, zlib.compress(bytes(58 * 5))), BROKEN),
        "no_palette.png": (png_of(19, 11, zlib.compress(bytes(20 * 11)), colour=3), BROKEN),
        "no_such_depth.png": (png_of(19, 11, rows, depth=3), BROKEN),
        "no_such_filter.png": (png_of(19, 11, zlib.compress((b"\x09" + bytes(57)) * 11)), BROKEN),
        "chunk_length.png": (patched(flat, 33, b"\xff\xff\xff\xf0"), BROKEN),
        "too_many_codes.jpg": (patched(jpeg, jpeg.index(b"\xff\xc4") + 5, b"\xff\xff"), BROKEN),
        "no_tables.jpg": (jpeg[:2] + jpeg[frame:], BROKEN), "no_scan.jpg": (jpeg[: jpeg.index(b"\xff\xda")] + b"\xff\xd9", BROKEN),
        "segment_length.jpg": (patched(jpeg, 4, b"\0\1"), BROKEN), "sampling.jpg": (patched(jpeg, frame + 11, b"\xff"), BROKEN),
        "many_scans.jpg": (many_scans(1000), "any"), "code_size.gif": (patched(gif, gif.index(b"\x2c\0\0\0\0") + 10, b"\x0d"), BROKEN),
        "no_picture.gif": (gif[: gif.index(b"\x2c\0\0\0\0")] + b"\x3b", BROKEN),
        "loop.tif": (patched(tiff(tags, [b"", b""]), 4, struct.pack("<I", 0xFFFFFFF0)), BROKEN),
        "next_is_itself.tif": (tiff(tags, pixels, next_directory=8), "any"), "strip_outside.tif": (tiff(tags, pixels)[:-300], BROKEN),
        "no_strips.tif": (tiff({tag: value for tag, value in tags.items() if tag != 278}, []), BROKEN),
        "many_samples.tif": (tiff({**tags, 277: 60000}, pixels), BROKEN), "damaged_lzw.tif": (damaged(lzw, 60), BROKEN),
        "damaged_deflate.tif": (damaged(encode(COLOUR, "TIFF", compression="tiff_adobe_deflate"), 100), BROKEN),
        "no_such_compression.tif": (tiff({**tags, 259: 31337}, pixels), BROKEN), "riff_length.webp": (patched(webp, 4, b"\xff\xff\xff\x7f"), BROKEN),
        "chunk_length.webp": (patched(webp, 16, b"\xff\xff\xff\x7f"), BROKEN),
        "offset.bmp": (patched(map_, 10, b"\xff\xff\xff\x7f"), BROKEN), "depth.bmp": (patched(map_, 28, b"\7\0"), BROKEN),
        "runs_outside.bmp": (bmp(19, 11, 8, b"\xff\1" * 200 + b"\0\1", compression=1, table=bytes(1024), colours=256), "any"),
        "box_length.jp2": (patched(jp2, 12, b"\xff\xff\xff\xff"), BROKEN), "components.jp2": (patched(jp2, siz + 38, b"\xff\xff"), BROKEN),
        "number.ppm": (b"P6 99999999999999999999 1 255\n", UNKNOWN),
        "comment.ppm": (b"P6 # never ends", UNKNOWN),
    }


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class OsSystem:
    def __reduce__(self):
        return os.system, ("touch hydrascope_executed_a_pickle",)


def zip_of(*files: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def weights() -> dict[str, tuple[bytes, str]]:
    """Files, and folders' files, of models that no program may open."""
    import torch

    tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    called = io.BytesIO()
    torch.save({"weight": torch.zeros(2), "x": OsSystem()}, called)
    index = {"metadata": {}, "weight_map": {"head.weight": "../../outside.safetensors"}}
    good = safetensors({"head.weight": tensor}, bytes(8))
    return {
        "empty.safetensors": (b"", "empty"), "pointer.safetensors": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "LFS"),
        "page.safetensors": (b"<!DOCTYPE html><html>", "HTML"), "cut.safetensors": (good[:-1], "end outside the file"),
        "longer.safetensors": (good + b"x", "1 bytes after the last tensor"),
        "header_length.safetensors": (struct.pack("<Q", 1 << 62) + b"{}", "header"), "not_json.safetensors": (safetensors(b"{'a': 1}"), "header"),
        "twice.safetensors": (safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"), "a"),
        "overlap.safetensors": (safetensors({"a": tensor, "b": {**tensor, "data_offsets": [4, 12]}}, bytes(12)), "b"),
        "hole.safetensors": (safetensors({"a": {**tensor, "data_offsets": [4, 12]}}, bytes(12)), "a"),
        "negative.safetensors": (safetensors({"a": {**tensor, "shape": [-2]}}, bytes(8)), "a"),
        "product.safetensors": (safetensors({"a": {**tensor, "shape": [1 << 62, 8]}}, bytes(8)), "a"),
        "no_such_dtype.safetensors": (safetensors({"a": {**tensor, "dtype": "F3"}}, bytes(8)), "F3"),
        "deep.safetensors": (safetensors(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"), "header"),
        "outside/model.safetensors.index.json": (json.dumps(index).encode(), "outside"),
        "os_system.pth": (called.getvalue(), "refused to call os.system"), "no_pickle.pth": (zip_of(("archive/version", b"3\n")), "data.pkl"),
        "zip_bomb.pth": (zip_of(("archive/data.pkl", bytes(1 << 24)), compression=zipfile.ZIP_DEFLATED), "compressed"),
        "cut.pth": (called.getvalue()[:-200], "cut"), "model.onnx": (b"\x08\x08\x12\x07pytorch\x1a\x05", "an ONNX model"),
        "ggml.bin": (b"lmgg" + struct.pack("<6I", 2, 224, 16, 192, 3, 12), "from before GGUF"),
        "flax.msgpack": (b"\x81\xa6params\x80", "a msgpack file"), "tensorflow/tf_model.h5": (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        "arrays.npz": (zip_of(("embedding/kernel.npy", b"\x93NUMPY")), "NumPy arrays"),
        "adapter/adapter_config.json": (json.dumps({"peft_type": "LORA", "base_model_name_or_path": "google/vit"}).encode(), "merge it first"),
        "quantised.safetensors": (
            safetensors({"fc.weight": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [4, 8]}, "fc.weight_scale": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(8)),
            "quantised",
        ),
    }
