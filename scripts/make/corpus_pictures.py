"""Pictures of tests/corpus: good ones (the samples of every format), odd ones, and Pillow's answers.

Step of make_corpus.py; needs Pillow and numpy. Own gradients, and parts of the bundled photographs (CC0).
"""

import io
import struct
from pathlib import Path

import numpy as np
from corpus_encoders import GREY, GREY_ALPHA, PALETTE, RGB, RGBA, bmp, bmp_rows, packed_rows, png, png_chunk, tiff, tiff_tags
from PIL import Image, ImageCms, ImageOps

ROOT = Path(__file__).resolve().parents[2]
SQUASHED = 32  # edge of a large picture's answer: resized with Pillow's bicubic filter

Y, X = np.mgrid[0:11, 0:19]
COLOUR = Image.fromarray(np.stack([X * 13, Y * 23, (X * 5 + Y * 9) % 256], axis=-1).astype(np.uint8))
ALPHA = Image.fromarray(((X * 14 + Y * 7) % 256).astype(np.uint8))
DEEP_GREY = Image.fromarray(((X * 3391 + Y * 1777) % 65536).astype(np.uint16))
GREY_PICTURE = COLOUR.convert("L")
INDEXED = COLOUR.quantize(24)
BILEVEL = GREY_PICTURE.convert("1")
TRANSPARENT = COLOUR.copy()
TRANSPARENT.putalpha(ALPHA)
CMYK = Image.merge("CMYK", [*COLOUR.split(), ALPHA])


def photo(width: int, height: int) -> Image.Image:
    whole = Image.open(ROOT / "assets" / "images" / "otter-head.jpg").convert("RGB")
    return whole.resize((width, height), Image.Resampling.BICUBIC)


def encode(picture: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def good() -> dict[str, bytes]:
    second_frame = TRANSPARENT.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return {
        "baseline.jpg": encode(COLOUR, "JPEG", quality=90), "progressive.jpg": encode(COLOUR, "JPEG", quality=90, progressive=True),
        "grey.jpg": encode(GREY_PICTURE, "JPEG", quality=90), "cmyk.jpg": encode(CMYK, "JPEG", quality=90),
        "exif.jpg": encode(COLOUR, "JPEG", quality=90, subsampling=0, exif=turned(6)),
        "restarts.jpg": encode(COLOUR, "JPEG", quality=90, restart_marker_blocks=1), "colour.png": encode(COLOUR, "PNG"),
        "alpha.png": encode(TRANSPARENT, "PNG"), "grey_alpha.png": encode(TRANSPARENT.convert("LA"), "PNG"),
        "deep_grey.png": encode(DEEP_GREY, "PNG"), "bilevel.png": encode(BILEVEL, "PNG"), "palette.png": encode(INDEXED, "PNG"),
        "palette_alpha.png": encode(INDEXED, "PNG", transparency=bytes(range(0, 240, 10))),
        "keyed_grey.png": encode(GREY_PICTURE, "PNG", transparency=GREY_PICTURE.getpixel((5, 5))),
        "exif.png": encode(COLOUR, "PNG", exif=turned(8)), "lossy.webp": encode(COLOUR, "WEBP", quality=90),
        "alpha.webp": encode(TRANSPARENT, "WEBP", lossless=True, exact=True), "exif.webp": encode(COLOUR, "WEBP", lossless=True, exif=turned(3)),
        "animated.webp": encode(TRANSPARENT, "WEBP", lossless=True, exact=True, save_all=True, append_images=[second_frame]),
        "lzw.tif": encode(COLOUR, "TIFF", compression="tiff_lzw"), "alpha.tif": encode(TRANSPARENT, "TIFF"),
        "deep_grey.tif": encode(DEEP_GREY, "TIFF"), "turned.tif": encode(COLOUR, "TIFF", tiffinfo={0x0112: 6}),
        "colour.bmp": encode(COLOUR, "BMP"), "palette.bmp": encode(INDEXED, "BMP"), "unused_fourth_byte.bmp": encode(TRANSPARENT, "BMP"),
        "first_of_two.gif": encode(INDEXED, "GIF", save_all=True, append_images=[BILEVEL]),
        "transparent.gif": encode(INDEXED, "GIF", transparency=3), "colour.jp2": encode(COLOUR, "JPEG2000"),
    }


def frame_of(data: bytes) -> int:
    """The place where a JPEG's frame header begins."""
    return next(at for marker in (b"\xff\xc0", b"\xff\xc2") if (at := data.find(marker)) > 0)


def with_sampling(data: bytes, sampling: int) -> bytes:
    """The same coefficients in another order: what is seen is another picture, the same for every decoder."""
    at = frame_of(data) + 11
    return data[:at] + bytes([sampling]) + data[at + 1 :]


def odd_jpegs() -> dict[str, bytes]:
    picture, square = photo(61, 43), photo(64, 64)
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    # The times in a profile's header are zeroed: each run gives the same bytes.
    icc = icc[:24] + bytes(12) + icc[36:]
    baseline = encode(picture, "JPEG", quality=85)
    progressive = encode(picture, "JPEG", progressive=True)
    with_junk = baseline[:2] + b"\xff\xfe\0\x0ca comment!" + b"\xff\xee\0\x06junk" + baseline[2:]
    twelve = bytearray(encode(picture, "JPEG", quality=85))
    twelve[frame_of(bytes(twelve)) + 1] = 0xC1
    twelve[twelve.index(b"\xff\xc1") + 4] = 12
    files = {
        "chroma_444.jpg": encode(picture, "JPEG", quality=85, subsampling="4:4:4"),
        "chroma_422.jpg": encode(picture, "JPEG", quality=85, subsampling="4:2:2"),
        "chroma_420.jpg": encode(picture, "JPEG", quality=85, subsampling="4:2:0"),
        "chroma_440.jpg": with_sampling(encode(square, "JPEG", quality=85, subsampling="4:2:2"), 0x12),
        "chroma_411.jpg": with_sampling(encode(square, "JPEG", quality=85, subsampling="4:2:0"), 0x41),
        "progressive_422.jpg": encode(picture, "JPEG", quality=60, subsampling="4:2:2", progressive=True),
        "progressive_grey.jpg": encode(picture.convert("L"), "JPEG", quality=60, progressive=True),
        "only_some_scans.jpg": progressive[: progressive.rindex(b"\xff\xda")] + b"\xff\xd9",
        "rgb.jpg": encode(picture, "JPEG", quality=85, keep_rgb=True),
        "ycck.jpg": encode(CMYK, "JPEG", quality=90).replace(b"Adobe\0d\0\0\0\0\0", b"Adobe\0d\0\0\0\0\2"),
        "icc.jpg": encode(picture, "JPEG", quality=85, icc_profile=icc),
        "two_pictures.mpo": encode(picture, "MPO", save_all=True, append_images=[square]), "comments.jpg": with_junk,
        "fill_bytes.jpg": baseline.replace(b"\xff\xdb", b"\xff\xff\xff\xdb", 1),
        "behind_the_end.jpg": baseline + b"\xff\xd8\xff\xe0 and more", "quality_1.jpg": encode(picture, "JPEG", quality=1),
        "12_bit.jpg": bytes(twelve), "real_baseline.jpg": encode(photo(640, 360), "JPEG", quality=80),
        "real_progressive.jpg": encode(photo(507, 381), "JPEG", quality=70, progressive=True, optimize=True),
        "real_tall_grey.jpg": encode(photo(301, 533).convert("L"), "JPEG", quality=80, restart_marker_rows=1),
        "real.webp": encode(photo(640, 360), "WEBP", quality=75),
        "real.jp2": encode(photo(320, 179), "JPEG2000", quality_mode="rates", quality_layers=[20], irreversible=True),
        "real_palette.png": encode(photo(301, 169).quantize(32), "PNG", optimize=True),
    }
    for orientation in range(1, 9):
        files[f"orientation_{orientation}.jpg"] = encode(COLOUR, "JPEG", quality=95, subsampling=0, exif=turned(orientation))
    return files


def deep_colours(rgb: np.ndarray) -> np.ndarray:
    """16 bits whose low bytes differ from the high ones."""
    return rgb * 257 - (rgb % 3) * 40 % 256


def odd_pngs() -> dict[str, bytes]:
    rgb, grey, alpha = (np.asarray(picture).astype(int) for picture in (COLOUR, GREY_PICTURE, ALPHA))
    deep = deep_colours(rgb)
    deep_grey, deep_alpha = np.asarray(DEEP_GREY).astype(int), alpha * 257
    colours = np.random.default_rng(5).integers(0, 256, (256, 3)).astype(np.uint8)

    def palette(count: int, transparency: bytes = b"") -> bytes:
        table = png_chunk(b"PLTE", colours[:count].tobytes())
        return table + (png_chunk(b"tRNS", transparency) if transparency else b"")

    def key(*samples: int) -> bytes:
        return png_chunk(b"tRNS", struct.pack(f">{len(samples)}H", *samples))

    rgba16 = np.concatenate([deep, deep_alpha[..., None]], -1)
    return {
        "interlaced.png": png(rgb, 8, RGB, interlaced=True), "interlaced_bilevel.png": png(grey >> 7, 1, GREY, interlaced=True),
        "interlaced_palette.png": png(grey >> 4, 4, PALETTE, interlaced=True, chunks=palette(16)),
        "interlaced_rgba16.png": png(rgba16, 16, RGBA, interlaced=True), "interlaced_narrow.png": png(rgb[:, :3], 8, RGB, interlaced=True),
        "rgb16.png": png(deep, 16, RGB), "rgba16.png": png(rgba16, 16, RGBA),
        "grey_alpha16.png": png(np.stack([deep_grey, deep_alpha], -1), 16, GREY_ALPHA), "grey2.png": png(grey >> 6, 2, GREY),
        "grey4.png": png(grey >> 4, 4, GREY), "palette1.png": png(grey >> 7, 1, PALETTE, chunks=palette(2)),
        "palette2.png": png(grey >> 6, 2, PALETTE, chunks=palette(4, bytes([0, 128]))),
        "palette4.png": png(grey >> 4, 4, PALETTE, chunks=palette(16, bytes(range(0, 160, 10)))),
        "palette_short_key.png": png(grey, 8, PALETTE, chunks=palette(256, b"\0")),
        "keyed_rgb.png": png(rgb, 8, RGB, chunks=key(*rgb[5, 5])), "keyed_rgb16.png": png(deep, 16, RGB, chunks=key(*deep[5, 5])),
        "keyed_grey16.png": png(deep_grey, 16, GREY, chunks=key(deep_grey[5, 5])),
        "keyed_grey2.png": png(grey >> 6, 2, GREY, chunks=key(1)), "many_parts.png": png(rgb, 8, RGB, split=7),
        "gamma.png": png(rgb, 8, RGB, chunks=png_chunk(b"gAMA", struct.pack(">I", 100000))),
        "unknown_chunk.png": png(rgb, 8, RGB, chunks=png_chunk(b"prIv", b"private")),
        "animated.png": encode(COLOUR, "PNG", save_all=True, append_images=[COLOUR.transpose(Image.Transpose.ROTATE_180)]),
        "one_pixel.png": png(rgb[:1, :1], 8, RGB), "one_column.png": png(rgb[:, :1].repeat(20, 0), 8, RGB),
    }


def odd_others() -> dict[str, bytes]:
    rgb, grey = np.asarray(COLOUR), np.asarray(GREY_PICTURE)
    height, width = grey.shape
    rows = [row.tobytes() for row in rgb]
    whole = b"".join(rows)
    blue_first = [row[:, ::-1].tobytes() for row in rgb]
    table = np.concatenate([np.random.default_rng(6).integers(0, 256, (256, 3)), np.zeros((256, 1))], -1).astype(np.uint8)
    runs = b"".join(b"".join(bytes([1, value]) for value in row.tobytes()) + b"\0\0" for row in reversed(grey)) + b"\0\1"
    red, green, blue = np.moveaxis(rgb.astype(int), -1, 0)
    five_six_five = (red >> 3 << 11 | green >> 2 << 5 | blue >> 3).astype("<u2")
    frames = {"save_all": True, "append_images": [GREY_PICTURE.quantize(8), BILEVEL]}
    moved = bytearray(encode(INDEXED, "GIF", interlace=0))
    moved[6:10] = struct.pack("<HH", width + 5, height + 4)  # the screen is larger than its picture
    at = moved.index(b"\x2c\0\0\0\0" + struct.pack("<HH", width, height))
    moved[at + 1 : at + 5] = struct.pack("<HH", 3, 2)
    tile = np.zeros((16, 32, 3), np.uint8)
    tile[:height, :width] = rgb
    strips = [b"".join(rows[i : i + 4]) for i in range(0, height, 4)]
    large = np.asarray(COLOUR).astype(int) * 257
    return {
        "interlaced.gif": encode(photo(40, 33).quantize(64), "GIF", interlace=1),
        "frames.gif": encode(INDEXED, "GIF", disposal=2, **frames), "small_on_a_screen.gif": bytes(moved),
        "one_colour.gif": encode(Image.new("P", (5, 4)), "GIF"), "lossy_alpha.webp": encode(TRANSPARENT, "WEBP", quality=80),
        "animated_lossy.webp": encode(COLOUR, "WEBP", quality=80, **frames), "grey.webp": encode(GREY_PICTURE, "WEBP", lossless=True),
        "packbits.tif": encode(COLOUR, "TIFF", compression="packbits"), "deflate.tif": encode(COLOUR, "TIFF", compression="tiff_adobe_deflate"),
        "jpeg.tif": encode(photo(48, 32), "TIFF", compression="jpeg", quality=90),
        "group4.tif": encode(BILEVEL, "TIFF", compression="group4"), "palette.tif": encode(INDEXED, "TIFF"),
        "cmyk.tif": encode(CMYK, "TIFF"), "grey_alpha.tif": encode(TRANSPARENT.convert("LA"), "TIFF"),
        "pages.tif": encode(COLOUR, "TIFF", save_all=True, append_images=[BILEVEL]), "bigtiff.tif": encode(COLOUR, "TIFF", big_tiff=True),
        "big_endian.tif": tiff(tiff_tags(width, height, 8, 2, 3), [whole], ">"),
        "strips.tif": tiff({**tiff_tags(width, height, 8, 2, 3), 278: 4}, strips),
        "tiles.tif": tiff({**tiff_tags(width, height, 8, 2, 3), 322: 32, 323: 16}, [tile.tobytes()]),
        "planes.tif": tiff(tiff_tags(width, height, 8, 2, 3, t284=2), [rgb[..., c].tobytes() for c in range(3)]),
        "white_is_zero.tif": tiff(tiff_tags(width, height, 8, 0, 1), [grey.tobytes()]),
        "rgb16.tif": tiff(tiff_tags(width, height, 16, 2, 3), [large.astype("<u2").tobytes()]),
        "bilevel.bmp": bmp(width, height, 1, bmp_rows(packed_rows((grey >> 7)[..., None], 1)), table=table[:2].tobytes(), colours=2),
        "palette4.bmp": bmp(width, height, 4, bmp_rows(packed_rows((grey >> 4)[..., None], 4)), table=table[:16].tobytes(), colours=16),
        "runs.bmp": bmp(width, height, 8, runs, compression=1, table=table.tobytes(), colours=256),
        "565.bmp": bmp(width, height, 16, bmp_rows([row.tobytes() for row in five_six_five]), compression=3, table=struct.pack("<III", 0xF800, 0x7E0, 0x1F)),
        "555.bmp": bmp(width, height, 16, bmp_rows([(row >> 1).tobytes() for row in five_six_five])),
        "top_down.bmp": bmp(width, -height, 24, bmp_rows(blue_first[::-1])), "grey.jp2": encode(GREY_PICTURE, "JPEG2000"),
        "alpha.jp2": encode(TRANSPARENT, "JPEG2000"), "tiles.jp2": encode(COLOUR, "JPEG2000", tile_size=(8, 8)),
        "lossy.jp2": encode(COLOUR, "JPEG2000", quality_mode="rates", quality_layers=[3], irreversible=True),
        "codestream.j2k": encode(COLOUR, "JPEG2000", no_jp2=True), "deep_grey.jp2": encode(DEEP_GREY, "JPEG2000"),
        "deep.ppm": b"P6\n# a comment\n19 11\n65535\n" + large.astype(">u2").tobytes(),
        "grey.pgm": b"P5 19 11 255\n" + grey.tobytes(),
    }


def instead() -> dict[str, tuple[bytes, str]]:
    """Pictures whose answer is Pillow's for another file, and why."""
    rgb, grey = np.asarray(COLOUR).astype(int), np.asarray(GREY_PICTURE).astype(int)
    deep = deep_colours(rgb) >> 8
    screen = Image.new("RGB", (COLOUR.width + 5, COLOUR.height + 4), (255, 255, 255))
    screen.paste(INDEXED.convert("RGB"), (3, 2))
    key = png_chunk(b"tRNS", struct.pack(">3H", *deep[5, 5]))
    return {
        "keyed_grey2.png": (png((grey >> 6) * 85, 8, GREY, chunks=png_chunk(b"tRNS", struct.pack(">H", 85))),
                            "Pillow takes the key for one of 8 bits"),
        "keyed_rgb16.png": (png(deep, 8, RGB, chunks=key), "Pillow looks for 16 bits among 8"),
        "small_on_a_screen.gif": (encode(screen, "PNG"), "Pillow fills the screen with the background, browsers leave it transparent"),
    }


def upright(data: bytes) -> Image.Image:
    """8-bit RGB as this project defines it: alpha over white, the high byte of 16 bits, the right way up."""
    picture = Image.open(io.BytesIO(data))
    picture.load()
    if picture.mode.startswith("I;16"):
        key = picture.info.get("transparency")
        samples = np.asarray(picture).astype(np.uint16)
        grey = (samples >> 8).astype(np.uint8)
        return Image.fromarray(np.where(samples == key, np.uint8(255), grey) if key is not None else grey).convert("RGB")
    picture = ImageOps.exif_transpose(picture)
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, (255, 255, 255))
        white.paste(picture, mask=picture.getchannel("A"))
        return white
    return picture.convert("RGB")


def tolerance(file: str) -> list[int]:
    """Grey levels that OpenCV and stb_image may be away; -1: stb_image does not read it, 0 for what has one answer."""
    path = Path(file)
    # The specialities of the table: colours converted in other places, other rounding of 5 and 6 bits, and blocks
    # that lack coefficients, which newer versions of libjpeg smooth more.
    particular = {"cmyk.jpg": [1, 1], "ycck.jpg": [2, 6], "alpha_associated.tif": [1, 1], "alpha16_associated.tif": [1, 1],
                  "565.bmp": [1, 1], "555.bmp": [1, 1], "runs.bmp": [0, -1], "only_some_scans.jpg": [8, 64]}
    if path.name in particular:
        return particular[path.name]
    if path.suffix in (".jpg", ".mpo"):
        return [1, 6]
    return [0, -1] if path.suffix in (".webp", ".jp2", ".j2k") else [0, 0]


def riff(name: bytes, data: bytes) -> bytes:
    """A RIFF chunk, padded to an even length."""
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def video() -> bytes:
    """Motion JPEG in AVI: https://learn.microsoft.com/windows/win32/directshow/avi-riff-file-reference."""
    width, height, per_second, count = 32, 16, 10, 6
    jpegs = [encode(Image.new("RGB", (width, height), (40 * i,) * 3), "JPEG", quality=50) for i in range(count)]
    frames = [riff(b"00dc", jpeg) for jpeg in jpegs]
    largest = max(map(len, jpegs))
    main_header = struct.pack("<14I", 1_000_000 // per_second, 0, 0, 0x10, count, 0, 1, largest, width, height, 0, 0, 0, 0)
    stream_header = struct.pack("<4s4sIHH8I4H", b"vids", b"MJPG", 0, 0, 0, 0, 1, per_second, 0, count, largest, 0, 0, 0, 0, width, height)
    stream_format = struct.pack("<IiiHH4s5I", 40, width, height, 1, 24, b"MJPG", 0, 0, 0, 0, 0)
    stream = riff(b"LIST", b"strl" + riff(b"strh", stream_header) + riff(b"strf", stream_format))
    header = riff(b"LIST", b"hdrl" + riff(b"avih", main_header) + stream)
    index, offset = b"", 4
    for frame in frames:
        index += struct.pack("<4sIII", b"00dc", 0x10, offset, len(frame) - 8)
        offset += len(frame)
    body = header + riff(b"LIST", b"movi" + b"".join(frames)) + riff(b"idx1", index)
    return riff(b"RIFF", b"AVI " + body)
