"""Small files of many formats, and what Pillow makes of them, for tests/model/image/decode_test.cpp.

    python scripts/make/make_image_samples.py

Writes tests/data/images/NAME and NAME.ppm: 8-bit RGB as this project defines it, that is Pillow's
`convert("RGB")`, with alpha composed over white and 16-bit samples cut to their high byte. The
pictures are gradients. Also six_frames.avi, for video_test.cpp: frame i is grey level 40 * i, ten
frames per second. Needs Pillow and numpy.
"""

import io
import struct
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "images"
WIDTH, HEIGHT = 19, 11

Y, X = np.mgrid[0:HEIGHT, 0:WIDTH]
COLOUR = Image.fromarray(
    np.stack([X * 13, Y * 23, (X * 5 + Y * 9) % 256], axis=-1).astype(np.uint8)
)
ALPHA = Image.fromarray(((X * 14 + Y * 7) % 256).astype(np.uint8))
DEEP_GREY = Image.fromarray(((X * 3391 + Y * 1777) % 65536).astype(np.uint16))
GREY = COLOUR.convert("L")
PALETTE = COLOUR.quantize(24)
BILEVEL = GREY.convert("1")
TRANSPARENT = COLOUR.copy()
TRANSPARENT.putalpha(ALPHA)
CMYK = Image.merge("CMYK", [*COLOUR.split(), ALPHA])


def encode(picture: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def samples() -> dict[str, bytes]:
    second_frame = TRANSPARENT.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return {
        "baseline.jpg": encode(COLOUR, "JPEG", quality=90),
        "progressive.jpg": encode(COLOUR, "JPEG", quality=90, progressive=True),
        "grey.jpg": encode(GREY, "JPEG", quality=90),
        "cmyk.jpg": encode(CMYK, "JPEG", quality=90),
        "exif.jpg": encode(COLOUR, "JPEG", quality=90, subsampling=0, exif=turned(6)),
        "restarts.jpg": encode(COLOUR, "JPEG", quality=90, restart_marker_blocks=1),
        "colour.png": encode(COLOUR, "PNG"),
        "alpha.png": encode(TRANSPARENT, "PNG"),
        "grey_alpha.png": encode(TRANSPARENT.convert("LA"), "PNG"),
        "deep_grey.png": encode(DEEP_GREY, "PNG"),
        "bilevel.png": encode(BILEVEL, "PNG"),
        "palette.png": encode(PALETTE, "PNG"),
        "palette_alpha.png": encode(PALETTE, "PNG", transparency=bytes(range(0, 240, 10))),
        "keyed_grey.png": encode(GREY, "PNG", transparency=GREY.getpixel((5, 5))),
        "exif.png": encode(COLOUR, "PNG", exif=turned(8)),
        "lossy.webp": encode(COLOUR, "WEBP", quality=90),
        "alpha.webp": encode(TRANSPARENT, "WEBP", lossless=True, exact=True),
        "exif.webp": encode(COLOUR, "WEBP", lossless=True, exif=turned(3)),
        "animated.webp": encode(
            TRANSPARENT, "WEBP", lossless=True, exact=True, save_all=True,
            append_images=[second_frame],
        ),
        "lzw.tif": encode(COLOUR, "TIFF", compression="tiff_lzw"),
        "alpha.tif": encode(TRANSPARENT, "TIFF"),
        "deep_grey.tif": encode(DEEP_GREY, "TIFF"),
        "turned.tif": encode(COLOUR, "TIFF", tiffinfo={0x0112: 6}),
        "colour.bmp": encode(COLOUR, "BMP"),
        "palette.bmp": encode(PALETTE, "BMP"),
        "unused_fourth_byte.bmp": encode(TRANSPARENT, "BMP"),
        "first_of_two.gif": encode(PALETTE, "GIF", save_all=True, append_images=[BILEVEL]),
        "transparent.gif": encode(PALETTE, "GIF", transparency=3),
        "colour.jp2": encode(COLOUR, "JPEG2000"),
    }


def expected(data: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(data))
    picture.load()
    if picture.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, (255, 255, 255))
        white.paste(picture, mask=picture.getchannel("A"))
        return white
    return picture.convert("RGB")


def chunk(name: bytes, data: bytes) -> bytes:
    """A RIFF chunk, padded to an even length."""
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def video() -> bytes:
    """Motion JPEG in AVI: https://learn.microsoft.com/windows/win32/directshow/avi-riff-file-reference."""
    width, height, per_second, count = 32, 16, 10, 6
    jpegs = [
        encode(Image.new("RGB", (width, height), (40 * i,) * 3), "JPEG", quality=50)
        for i in range(count)
    ]
    frames = [chunk(b"00dc", jpeg) for jpeg in jpegs]
    largest = max(map(len, jpegs))
    main_header = struct.pack(
        "<14I", 1_000_000 // per_second, 0, 0, 0x10, count, 0, 1, largest, width, height, 0, 0, 0, 0
    )
    stream_header = struct.pack(
        "<4s4sIHH8I4H", b"vids", b"MJPG", 0, 0, 0, 0, 1, per_second, 0, count, largest, 0, 0,
        0, 0, width, height,
    )
    stream_format = struct.pack("<IiiHH4s5I", 40, width, height, 1, 24, b"MJPG", 0, 0, 0, 0, 0)
    stream = chunk(b"LIST", b"strl" + chunk(b"strh", stream_header) + chunk(b"strf", stream_format))
    header = chunk(b"LIST", b"hdrl" + chunk(b"avih", main_header) + stream)
    index, offset = b"", 4
    for frame in frames:
        index += struct.pack("<4sIII", b"00dc", 0x10, offset, len(frame) - 8)
        offset += len(frame)
    body = header + chunk(b"LIST", b"movi" + b"".join(frames)) + chunk(b"idx1", index)
    return chunk(b"RIFF", b"AVI " + body)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    total = 0
    for name, data in samples().items():
        (FOLDER / name).write_bytes(data)
        expected(data).save(FOLDER / f"{name}.ppm")
        total += len(data)
    (FOLDER / "six_frames.avi").write_bytes(video())
    print(f"Pillow {PIL.__version__}: {len(samples())} files, {total} bytes, in {FOLDER}")


if __name__ == "__main__":
    main()
