"""The parts of the checks of cases, and the files that cases begin with."""

import array
import csv
import io
import json
import math
import re
import struct


def rows(text):
    return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in text.split("\n")[0] else ","))


def raw(text):
    return text.encode("utf-8", "surrogateescape")


def png_size(text):
    data = raw(text)
    return list(struct.unpack(">II", data[16:24])) if data[1:4] == b"PNG" else None


def npy(text):
    data = raw(text)
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    shape = re.search(r"'shape': \(([^)]*)\)", data[:begin].decode("latin-1"))[1]
    return {"shape": [int(size) for size in shape.split(",") if size.strip()], "values": list(array.array("f", data[begin:]))}


def safetensors(text):
    """The bytes of a safetensors file, its header, and where its numbers begin."""
    data = bytearray(raw(text))
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return data, json.loads(data[8:begin]), begin


def tensors(text):
    data, header, begin = safetensors(text)
    places = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return {name: bytes(data[begin + first : begin + last]) for name, (first, last) in places.items()}


def vectors(text):
    """The vectors of a store: shape and values."""
    data, header, begin = safetensors(text)
    first, last = header["vectors"]["data_offsets"]
    return {"shape": header["vectors"]["shape"], "values": list(struct.unpack(f"<{(last - first) // 4}f", data[begin + first : begin + last]))}


def without_head(text):
    """The same file without the tensors of its classifier."""
    _, header, _ = safetensors(text)
    metadata = header.get("__metadata__", {})
    if "hydrascope.config" in metadata:
        metadata["hydrascope.config"] = json.dumps(json.loads(metadata["hydrascope.config"]) | {"num_classes": 0})
        metadata["num_classes"] = "0"
    body = b""
    for name, data in tensors(text).items():
        if name.startswith("head."):
            del header[name]
        else:
            header[name]["data_offsets"] = [len(body), len(body) + len(data)]
            body += data
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    return struct.pack("<Q", len(written)) + written + body


def spoiled(text, name, index, by):
    """The same file with one float32 number that is larger by `by`."""
    data, header, begin = safetensors(text)
    at = begin + header[name]["data_offsets"][0] + 4 * int(index)
    data[at : at + 4] = struct.pack("<f", struct.unpack("<f", data[at : at + 4])[0] + float(by))
    return data


FILTERS = {
    "json": json.loads, "jsonl": lambda text: [json.loads(line) for line in text.splitlines()], "lines": str.splitlines,
    "rows": rows, "png": png_size, "npy": npy, "tensors": tensors, "vectors": vectors, "len": len, "size": lambda text: len(raw(text)), "sum": sum, "min": min, "max": max, "keys": list,
    "sorted": sorted, "set": lambda values: sorted(set(values)), "strip": str.strip, "longest": lambda lines: max(map(len, lines)),
    "type": lambda value: type(value).__name__, "nan": lambda values: sum(map(math.isnan, values)),
    "descends": lambda values: values == sorted(values, reverse=True),
}  # fmt: skip


def walk(value, path):
    if not path:
        return [value]
    if path[0] == "*?":
        return [found for each in value if path[1] in each for found in walk(each, path[1:])]
    if path[0] == "*":
        return [found for each in (value.values() if isinstance(value, dict) else value) for found in walk(each, path[1:])]
    if isinstance(value, list) and ":" in path[0]:
        first, last = (int(end) if end else None for end in path[0].split(":"))
        return walk(value[first:last], path[1:])
    return walk(value[int(path[0])] if isinstance(value, list) else value[path[0]], path[1:])


def near(value, wanted, by):
    by = abs(wanted) * float(by[:-1]) / 100 if by.endswith("%") else float(by)
    if isinstance(value, list):
        return len(value) == len(wanted) and all(map(lambda a, b: abs(a - b) <= by, value, wanted))
    return abs(value - wanted) <= by


OPERATIONS = {
    "==": lambda value, wanted: value == wanted, "!=": lambda value, wanted: value != wanted,
    "<": lambda value, wanted: value < wanted, "<=": lambda value, wanted: value <= wanted,
    ">": lambda value, wanted: value > wanted, ">=": lambda value, wanted: value >= wanted,
    "has": lambda value, *wanted: all(each in value for each in wanted),
    "lacks": lambda value, *wanted: not any(each in value for each in wanted),
    "once": lambda value, *wanted: all(value.count(each) == 1 for each in wanted),
    "starts": lambda value, wanted: value.startswith(wanted), "in": lambda value, wanted: value in wanted,
    "matches": lambda value, wanted: re.search(wanted, value) is not None,
}  # fmt: skip
ARITHMETIC = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}


def literals(text):
    """JSON values with blanks between."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def ppm(width, height, seed):
    """A gradient whose colours depend on the seed."""
    return b"P6\n%d %d\n255\n" % (width, height) + bytes(
        value & 255 for y in range(height) for x in range(width) for value in (x * 5 + seed, y * 3 + seed * 7, x + y + seed * 31))  # fmt: skip


def scene(photo):
    """A photograph of 160x288 pixels at (8, 300) in 672x1200 pixels of grey that brightens to the right."""
    grey = bytes(90 + 60 * x // 1200 for x in range(1200) for _ in range(3))
    lines = [bytearray(grey) for _ in range(672)]
    for channel in range(3):
        for y in range(160):
            for x in range(288):
                value = photo[(channel * 160 + y) * 288 + x]
                lines[300 + y][3 * (8 + x) + channel] = min(255, max(0, round(255 * value)))
    return b"P6\n1200 672\n255\n" + b"".join(lines)
