"""Writers of picture files that Pillow reads and does not write: PNG, TIFF and BMP in all their forms.

For corpus_pictures.py. Formats: https://www.w3.org/TR/png-3/, TIFF 6.0 (Aldus, 1992) and
https://learn.microsoft.com/windows/win32/gdi/bitmap-storage.
"""

import struct
import zlib

import numpy as np

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6  # PNG's colour types
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def packed_rows(samples: np.ndarray, depth: int) -> list[bytes]:
    """Rows of (H, W, C) samples of `depth` bits, the first one in the highest bits."""
    rows = samples.reshape(len(samples), -1)
    if depth == 16:
        return [row.astype(">u2").tobytes() for row in rows]
    if depth == 8:
        return [row.astype(np.uint8).tobytes() for row in rows]
    shifts = np.arange(depth - 1, -1, -1)
    bits = (rows[:, :, None] >> shifts & 1).astype(np.uint8).reshape(len(rows), -1)
    return [np.packbits(row).tobytes() for row in bits]


def png(samples: np.ndarray, depth: int, colour: int, *, interlaced: bool = False, chunks: bytes = b"", split: int = 0) -> bytes:
    """`samples`: (H, W) or (H, W, C). `chunks` stand before the data, which `split` cuts into IDATs of that length."""
    samples = samples.reshape(*samples.shape[:2], -1)
    height, width = samples.shape[:2]
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    data = zlib.compress(b"".join(b"\0" + row for part in parts if part.shape[1] for row in packed_rows(part, depth)), 9)
    pieces = [data[i : i + split] for i in range(0, len(data), split)] if split else [data]
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + chunks
            + b"".join(png_chunk(b"IDAT", piece) for piece in pieces) + png_chunk(b"IEND", b""))


def tiff(entries: dict[int, list[int] | int], data: list[bytes], order: str = "<", next_directory: int = 0) -> bytes:
    """One directory; `entries` are tags and values of 32 bits, `data` its strips or tiles (tag 273 or 324)."""
    place = 324 if 322 in entries else 273
    entries = {tag: value for tag, value in entries.items() if place == 273 or tag != 278}  # tiles have no rows per strip
    entries = {**entries, place: [0] * len(data), place + (1 if place == 324 else 6): [len(part) for part in data]}
    values = {tag: value if isinstance(value, list) else [value] for tag, value in entries.items()}
    offset = 8 + 2 + 12 * len(values) + 4  # of what does not fit into an entry
    outside = sum(4 * len(value) for value in values.values() if len(value) > 1)
    at = offset + outside
    for i, part in enumerate(data):
        values[place][i] = at
        at += len(part)
    directory, more = struct.pack(order + "H", len(values)), b""
    for tag, value in sorted(values.items()):
        numbers = struct.pack(f"{order}{len(value)}I", *value)
        if len(value) > 1:
            numbers, more = struct.pack(order + "I", offset + len(more)), more + numbers
        directory += struct.pack(order + "HHI", tag, 4, len(value)) + numbers
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + directory + struct.pack(order + "I", next_directory) + more + b"".join(data)


def tiff_tags(width: int, height: int, bits: int, photometric: int, samples: int, **more: int) -> dict[int, int]:
    tags = {256: width, 257: height, 258: [bits] * samples, 259: 1, 262: photometric, 277: samples}
    return {**tags, 278: height, **{int(tag[1:]): value for tag, value in more.items()}}


def bmp(width: int, height: int, bits: int, rows: bytes, *, compression: int = 0, table: bytes = b"", colours: int = 0) -> bytes:
    """`rows` as they lie in the file."""
    start = 54 + len(table)
    information = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(rows), 2835, 2835, colours, 0)
    return b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start) + information + table + rows


def bmp_rows(rows: list[bytes]) -> bytes:
    """Bottom row first, each padded to four bytes."""
    return b"".join(row + b"\0" * (-len(row) % 4) for row in reversed(rows))
