"""Pictures of tests/corpus whose meaning is said beside their samples: TIFF's extra samples, orientations in XMP and
in texts, ends that are lost. Step of make_corpus.py.
"""

import struct
import zlib

import numpy as np
from corpus_encoders import RGB, bmp, bmp_rows, png, png_chunk, tiff, tiff_tags
from corpus_pictures import (
    ALPHA, BILEVEL, CMYK, COLOUR, DEEP_GREY, GREY_PICTURE, INDEXED, deep_colours, encode, photo, turned,
)
from PIL import Image

WIDTH, HEIGHT = COLOUR.size


def stack(*planes: np.ndarray) -> np.ndarray:
    return np.concatenate([plane.reshape(HEIGHT, WIDTH, -1) for plane in planes], -1)


def tiff_of(samples: np.ndarray, photometric: int, bits: int, extra: list[int], order: str = "<", **more: int) -> bytes:
    """Uncompressed, in one strip, with the tag ExtraSamples where there are any."""
    count = samples.shape[-1]
    kind = {8: "u1", 16: "u2", 32: "f4"}[bits]
    tags = tiff_tags(WIDTH, HEIGHT, bits, photometric, count, **more)
    if extra:
        tags[338] = extra
    return tiff(tags, [samples.astype(order + kind).tobytes()], order)


def big_tiff(samples: np.ndarray, extra: list[int], order: str) -> bytes:
    """BigTIFF of RGB with extra samples, all entries of 64 bits."""
    count = samples.shape[-1]
    entries = {256: [WIDTH], 257: [HEIGHT], 258: [8] * count, 259: [1], 262: [2], 273: [0], 277: [count], 278: [HEIGHT], 279: [samples.size], 338: extra}
    outside = 16 + 8 + 20 * len(entries) + 8
    entries[273] = [outside + sum(8 * len(values) for values in entries.values() if len(values) > 1)]
    directory, more = struct.pack(order + "Q", len(entries)), b""
    for tag, values in sorted(entries.items()):
        numbers = struct.pack(f"{order}{len(values)}Q", *values)
        if len(values) > 1:
            numbers, more = struct.pack(order + "Q", outside + len(more)), more + numbers
        directory += struct.pack(order + "HHQ", tag, 16, len(values)) + numbers
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HHHQ", 43, 8, 0, 16)
    return head + directory + bytes(8) + more + samples.astype(np.uint8).tobytes()


def tiff_forms() -> dict[str, bytes]:
    rgb, grey, other = (np.asarray(picture).astype(int) for picture in (COLOUR, GREY_PICTURE, ALPHA))
    ink = np.asarray(CMYK).astype(int)
    index = np.asarray(INDEXED).astype(int)
    deep, deep_other = deep_colours(rgb), other * 257
    premultiplied = np.minimum(rgb, other[..., None])
    colours = np.random.default_rng(7).integers(0, 65536, 768).tolist()
    tile = np.zeros((16, 32, 4), np.uint8)
    tile[:HEIGHT, :WIDTH] = stack(rgb, other)
    planes = [plane.astype(np.uint8).tobytes() for plane in (*np.moveaxis(rgb, -1, 0), other)]
    four = {**tiff_tags(WIDTH, HEIGHT, 8, 2, 4), 338: 0}
    rgbx = Image.merge("RGBX", [*COLOUR.split(), ALPHA])
    return {
        "infrared.tif": tiff_of(stack(rgb, other), 2, 8, [0]), "infrared_big_endian.tif": tiff_of(stack(rgb, other), 2, 8, [0], ">"),
        "infrared_lzw.tif": encode(rgbx, "TIFF", compression="tiff_lzw"),
        "infrared_deflate.tif": encode(rgbx, "TIFF", compression="tiff_adobe_deflate"),
        "infrared_planes.tif": tiff({**four, 259: 8, 284: 2}, [zlib.compress(plane) for plane in planes]),
        "infrared_tiles.tif": tiff({**four, 322: 32, 323: 16}, [tile.tobytes()]), "infrared_bigtiff.tif": big_tiff(stack(rgb, other), [0], "<"),
        "infrared_bigtiff_big_endian.tif": big_tiff(stack(rgb, other), [0], ">"), "infrared16.tif": tiff_of(stack(deep, deep_other), 2, 16, [0]),
        "infrared16_big_endian.tif": tiff_of(stack(deep, deep_other), 2, 16, [0], ">"),
        "two_extra.tif": tiff_of(stack(rgb, other, grey), 2, 8, [0, 0]), "three_extra.tif": tiff_of(stack(rgb, other, grey, other), 2, 8, [0, 0, 0]),
        "alpha_unsaid.tif": tiff_of(stack(rgb, other), 2, 8, []), "alpha_corel.tif": tiff_of(stack(rgb, other), 2, 8, [999]),
        "alpha_unassociated.tif": tiff_of(stack(rgb, other), 2, 8, [2]), "alpha_associated.tif": tiff_of(stack(premultiplied, other), 2, 8, [1]),
        "alpha_and_extra.tif": tiff_of(stack(rgb, other, grey), 2, 8, [2, 0]), "alpha_bigtiff.tif": big_tiff(stack(rgb, other), [2], "<"),
        "alpha_planes.tif": tiff({**four, 338: 2, 284: 2}, planes), "alpha16.tif": tiff_of(stack(deep, deep_other), 2, 16, [2]),
        "alpha16_associated.tif": tiff_of(stack(np.minimum(deep, deep_other[..., None]), deep_other), 2, 16, [1]),
        "grey_extra.tif": tiff_of(stack(grey, other), 1, 8, [0]), "grey_associated.tif": tiff_of(stack(np.minimum(grey, other), other), 1, 8, [1]),
        "grey_unassociated.tif": tiff_of(stack(grey, other), 1, 8, [2], ">"), "grey_signed.tif": tiff_of(stack(grey), 1, 8, [], t339=2),
        "grey16_big_endian.tif": tiff_of(stack(np.asarray(DEEP_GREY).astype(int)), 1, 16, [], ">"),
        "palette_extra.tif": tiff({**tiff_tags(WIDTH, HEIGHT, 8, 3, 2), 338: 0, 320: colours}, [stack(index, other).astype(np.uint8).tobytes()]),
        "palette_alpha.tif": tiff({**tiff_tags(WIDTH, HEIGHT, 8, 3, 2), 338: 2, 320: colours}, [stack(index, other).astype(np.uint8).tobytes()]),
        "palette4.tif": tiff({**tiff_tags(WIDTH, HEIGHT, 4, 3, 1), 320: colours[:48]}, [np.packbits(((np.pad(grey, ((0, 0), (0, 1))) >> 4)[..., None] >> np.arange(3, -1, -1) & 1).reshape(HEIGHT, -1), axis=1).tobytes()]),
        "cmyk_extra.tif": tiff_of(stack(ink, grey), 5, 8, [0]), "cmyk16.tif": tiff_of(ink * 257, 5, 16, []),
        "white_is_zero_bits.tif": tiff(tiff_tags(WIDTH, HEIGHT, 1, 0, 1), [np.packbits(np.asarray(BILEVEL), axis=1).tobytes()]),
        "low_bits_first.tif": tiff({**tiff_tags(WIDTH, HEIGHT, 1, 1, 1), 266: 2}, [np.packbits(np.asarray(BILEVEL), axis=1, bitorder="little").tobytes()]),
        "float.tif": tiff_of(stack(grey / 255), 1, 32, [], t339=3),
        "alpha_behind_extra.tif": tiff_of(stack(rgb, other, grey), 2, 8, [0, 2]), "cielab.tif": tiff_of(stack(rgb), 8, 8, []),
    }


def instead() -> dict[str, tuple[bytes, str]]:
    """Pictures whose answer is Pillow's for another file, and why."""
    grey, other = (np.asarray(picture).astype(int) for picture in (GREY_PICTURE, ALPHA))
    over_white = np.minimum(grey, other) + 255 - other
    return {
        "infrared_bigtiff_big_endian.tif": (encode(COLOUR, "PNG"), "Pillow reads no BigTIFF of that order"),
        "grey_associated.tif": (encode(Image.fromarray(over_white.astype(np.uint8)), "PNG"), "Pillow converts grey with associated alpha to nothing"),
    }


# Forms that Pillow reads, and this project does not.
NOT_READ = {"float.tif": "unsupported_format", "cielab.tif": "unsupported_format", "alpha_behind_extra.tif": "unsupported_format", "ycc.jp2": "unsupported_format"}

XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/"%s</rdf:RDF></x:xmpmeta>"""
ATTRIBUTE = (XMP % ' tiff:Orientation="6"/>').encode()
ELEMENT = (XMP % "><tiff:Orientation>8</tiff:Orientation></rdf:Description>").encode()


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """APP1 segments behind the start of the file."""
    return jpeg[:2] + b"".join(b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data for data in segments) + jpeg[2:]


def orientations() -> dict[str, bytes]:
    rgb = np.asarray(COLOUR)
    options = {"quality": 95, "subsampling": 0}
    jpeg = encode(COLOUR, "JPEG", **options)
    no_turn = Image.Exif()
    no_turn[0x010F] = "a maker"
    block = turned(3).tobytes()
    profile = f"\nexif\n{len(block):8}\n".encode() + b"\n".join(block.hex().encode()[i : i + 72] for i in range(0, 2 * len(block), 72)) + b"\n"

    def text(kind: bytes, data: bytes) -> bytes:
        return png(rgb, 8, RGB, chunks=png_chunk(kind, data))

    key, of_profile = b"XML:com.adobe.xmp\0", b"Raw profile type exif\0"
    behind = png(rgb, 8, RGB)
    exif = block[6:]
    return {
        "xmp_attribute.jpg": encode(COLOUR, "JPEG", xmp=ATTRIBUTE, **options), "xmp_element.jpg": encode(COLOUR, "JPEG", xmp=ELEMENT, **options),
        "xmp_beside_exif.jpg": encode(COLOUR, "JPEG", xmp=ATTRIBUTE, exif=no_turn, **options),
        "xmp_below_exif.jpg": encode(COLOUR, "JPEG", xmp=ATTRIBUTE, exif=turned(3), **options),
        "xmp_below_upright_exif.jpg": encode(COLOUR, "JPEG", xmp=ATTRIBUTE, exif=turned(1), **options),
        "exif_in_two_parts.jpg": with_segments(jpeg, block[:20], b"Exif\0\0" + block[20:]),
        "xmp_twice.jpg": with_segments(jpeg, *(b"http://ns.adobe.com/xap/1.0/\0" + data for data in (ATTRIBUTE, ELEMENT))),
        "xmp.png": text(b"iTXt", key + b"\0\0\0\0" + ATTRIBUTE),
        "xmp_deflated.png": text(b"iTXt", key + b"\1\0\0\0" + zlib.compress(ELEMENT)), "xmp_plain_text.png": text(b"tEXt", key + ATTRIBUTE),
        "xmp_below_exif.png": png(rgb, 8, RGB, chunks=png_chunk(b"iTXt", key + b"\0\0\0\0" + ATTRIBUTE) + png_chunk(b"eXIf", exif)),
        "xmp_behind.png": behind[:-12] + png_chunk(b"iTXt", key + b"\0\0\0\0" + ATTRIBUTE) + behind[-12:],
        "profile.png": text(b"zTXt", of_profile + b"\0" + zlib.compress(profile)), "profile_plain_text.png": text(b"tEXt", of_profile + profile),
        "profile_international.png": text(b"iTXt", of_profile + b"\1\0\0\0" + zlib.compress(profile)),
        "profile_behind.png": behind[:-12] + png_chunk(b"tEXt", of_profile + profile) + behind[-12:],
        "exif_text.png": text(b"tEXt", b"exif\0" + block), "xmp.webp": encode(COLOUR, "WEBP", lossless=True, xmp=ATTRIBUTE),
        "xmp_below_exif.webp": encode(COLOUR, "WEBP", lossless=True, xmp=ATTRIBUTE, exif=turned(3)),
        "xmp.tif": encode(COLOUR, "TIFF", tiffinfo={700: ATTRIBUTE}), "xmp_below_tag.tif": encode(COLOUR, "TIFF", tiffinfo={700: ATTRIBUTE, 274: 3}),
        "turned_infrared.tif": tiff_of(stack(np.asarray(COLOUR), np.asarray(ALPHA)), 2, 8, [0], t274=8),
    }


def ends() -> dict[str, bytes]:
    jpeg = encode(COLOUR, "JPEG", quality=90)
    tall = encode(photo(48, 64), "JPEG", quality=80, restart_marker_blocks=2)
    progressive = encode(photo(48, 64), "JPEG", quality=80, progressive=True)
    flat = png(np.asarray(COLOUR), 8, RGB)
    gif = encode(INDEXED, "GIF")
    return {
        "zeros_for_an_end.jpg": jpeg[:-2] + bytes(64), "other_bytes_for_an_end.jpg": jpeg[:-2] + b"nothing that a decoder knows",
        "cmyk_zeros_for_an_end.jpg": encode(CMYK, "JPEG", quality=90)[:-2] + bytes(64),
        "restarts_zeros_for_an_end.jpg": tall[:-2] + bytes(64), "no_end.jpg": jpeg[:-2],
        "cut_then_zeros.jpg": tall[: len(tall) // 2] + bytes(4096), "progressive_zeros_for_an_end.jpg": progressive[:-2] + bytes(64),
        "no_end.png": flat[:-12], "zeros_for_an_end.png": flat[:-12] + bytes(64), "no_end.gif": gif[:-1],
        "behind_the_end.gif": gif + bytes(64), "behind_the_end.webp": encode(COLOUR, "WEBP", lossless=True) + b"more than the size says",
        "behind_the_end.tif": encode(COLOUR, "TIFF") + bytes(64), "behind_the_end.jp2": encode(COLOUR, "JPEG2000") + bytes(64),
        "ycc.jp2": encode(COLOUR.convert("YCbCr"), "JPEG2000"),
        "short_of_padding.bmp": bmp(WIDTH, HEIGHT, 24, bmp_rows([row[:, ::-1].tobytes() for row in np.asarray(COLOUR)])[:-3]),
    }
