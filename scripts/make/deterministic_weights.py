"""Weights and inputs that two languages can make alike from names, shapes and a seed.

The C++ twin is tests/model/deterministic_weights.h; both follow tests/data/goldens/README.md and yield the same bits. Element i of a tensor
is `offset + scale * u`, with u in [-1, 1) from the top 24 bits of splitmix64 (Steele, Lea, Flood 2014, doi 10.1145/2660193.2660195) and
(offset, scale) from the name.
"""

import math
from collections.abc import Sequence

import numpy as np


def fnv1a64(text: str) -> int:
    """FNV-1a, 64 bits, over the UTF-8 bytes (http://www.isthe.com/chongo/tech/comp/fnv)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def splitmix64(state: np.ndarray) -> np.ndarray:
    """One step from every uint64 of `state`: add the golden gamma, then mix."""
    x = state + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def offset_and_scale(name: str, shape: Sequence[int]) -> tuple[np.float32, np.float32]:
    """The factor that keeps activations of order one, by the last component of the name."""
    leaf = name.rpartition(".")[2]
    if name == "input":
        offset, scale = 0.0, 2.0  # the spread of a picture after ImageNet's mean and std
    elif leaf == "gamma":
        offset, scale = 0.5, 0.25
    elif leaf == "bias":
        offset, scale = 0.0, 0.1
    elif leaf == "weight" and len(shape) == 1:
        offset, scale = 1.0, 0.1
    elif leaf == "weight":
        offset, scale = 0.0, math.sqrt(3.0 / math.prod(shape[1:]))  # variance 1 / fan_in
    else:
        offset, scale = 0.0, 0.5
    return np.float32(offset), np.float32(scale)


def deterministic(name: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """The float32 tensor `name`. offset and scale are float32 and u has 24 bits, so scale * u is exact in float64: the result does not
    depend on whether a compiler fuses the multiplication and the addition."""
    state = np.uint64(seed ^ fnv1a64(name)) + np.arange(math.prod(shape), dtype=np.uint64)
    u = (splitmix64(state) >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1.0
    offset, scale = offset_and_scale(name, shape)
    return (np.float64(offset) + np.float64(scale) * u).astype(np.float32).reshape(tuple(shape))
