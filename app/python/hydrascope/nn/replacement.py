"""`--attn` and `--attn-opt` for models of timm."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from torch import nn

from ..errors import InvalidArgumentError
from .attention import ALIASES, MECHANISMS, OperatorAttention

_SELECTOR = re.compile(r"(?:(?P<first>\d+)(?:-(?P<last>\d+))?|(?P<word>last|first|every)(?P<count>\d+))$")


def _layers(selector: str | None, depth: int, subject: str) -> list[int]:
    """The layers that "3", "0-9", "last4", "first2" or "every2" names; all without a selector."""
    if selector is None:
        return list(range(depth))
    match = _SELECTOR.match(selector)
    if match is None:
        raise InvalidArgumentError(f"layers are 3 | 0-9 | last4 | first2 | every2, not '{selector}' ({subject})")
    if match["word"]:
        count = int(match["count"])
        if count < 1 or count > depth:
            raise InvalidArgumentError(f"the model has {depth} layers, found '{selector}' ({subject})")
        return {"first": list(range(count)), "last": list(range(depth - count, depth)),
                "every": list(range(count - 1, depth, count))}[match["word"]]
    first, last = int(match["first"]), int(match["last"] or match["first"])
    if not first <= last < depth:
        raise InvalidArgumentError(f"layers go from 0 to {depth - 1}, found '{selector}' ({subject})")
    return list(range(first, last + 1))


def _mechanism(name: str, subject: str) -> str:
    name = ALIASES.get(name, name)
    if name != "softmax" and name not in MECHANISMS:
        raise InvalidArgumentError(f"there is no module of '{name}', only of softmax, {', '.join(MECHANISMS)} ({subject})")
    return name


def attention_of(model: nn.Module) -> list[tuple[str, dict[str, str]]]:
    """What each layer runs: the mechanism and its options."""
    found = [getattr(one, "attn", None) for one in model.blocks]  # type: ignore[union-attr]
    return [(one.mechanism, one.options) if isinstance(one, OperatorAttention) else ("softmax", {}) for one in found]


def _name(module: object) -> str:
    """timm has several classes of one name: beit.Block."""
    return f"{type(module).__module__.rpartition('.')[2]}.{type(module).__name__}"


def has_plain_blocks(model: nn.Module) -> bool:
    """Whether every block is timm's `vision_transformer.Block` with its `Attention`, or with one of these."""
    timm = sys.modules.get("timm.models.vision_transformer")
    return timm is not None and all(
        type(block) is timm.Block and (type(block.attn) is timm.Attention or isinstance(block.attn, OperatorAttention))
        for block in model.blocks)  # type: ignore[union-attr]


def replace_attention(model: nn.Module, attn: str, *, attn_opt: str | Sequence[str] = ()) -> nn.Module:
    """Gives layers of a timm vision transformer another attention, in place, and returns the model.

    `attn` is as `--attn`: "hydra:last2", "softmax:0-9,hydra:10-11", "hedgehog"; `attn_opt` as `--attn-opt`:
    "hydra.feature_scale=on", "hedgehog:0-5.variant=softmax2". The projections stay; what a mechanism adds starts as the
    program starts it. Refused, and left as they are, are models with other blocks or another attention than those of timm's
    `vision_transformer`: EVA, BEiT, CaiT, DINOv3, rotary and relative positions, norms of queries and keys.
    """
    if not hasattr(model, "blocks") or not hasattr(model, "patch_embed"):
        raise InvalidArgumentError(f"expected a vision transformer of timm, found {type(model).__name__}")
    if not has_plain_blocks(model):
        found = {f"{_name(one)} with {_name(getattr(one, 'attn', None))}" for one in model.blocks}  # type: ignore[union-attr]
        raise InvalidArgumentError("expected vision_transformer.Block with attention.Attention, found "
                                   f"{', '.join(sorted(found))} ({type(model).__name__})")
    if not isinstance(attn, str):
        raise InvalidArgumentError(f"expected mechanisms as in --attn, found {type(attn).__name__} (attn)")
    depth = len(model.blocks)  # type: ignore[arg-type]
    wanted: list[tuple[str, dict[str, str]]] = attention_of(model)
    for part in attn.split(","):
        name, colon, selector = part.partition(":")
        name = _mechanism(name, "attn")
        for layer in _layers(selector if colon else None, depth, f"attn {attn}"):
            if wanted[layer][0] != name:
                wanted[layer] = (name, {})
    for option in [attn_opt] if isinstance(attn_opt, str) else attn_opt:
        match = re.match(r"([^:.]+)(?::([^.]+))?\.([^=]+)=(.*)$", option)
        if match is None:
            raise InvalidArgumentError(f"expected mechanism.key=value or mechanism:layers.key=value, found '{option}'")
        name = _mechanism(match[1], "attn_opt")
        meant = [layer for layer in _layers(match[2], depth, option) if wanted[layer][0] == name]
        if not meant:
            raise InvalidArgumentError(f"no layer runs {name} ({option})")
        for layer in meant:
            wanted[layer] = (name, {**wanted[layer][1], match[3]: match[4]})
    rows, columns = model.patch_embed.grid_size  # type: ignore[union-attr]
    prefix = int(model.num_prefix_tokens)  # type: ignore[arg-type]
    made: list[tuple[nn.Module, OperatorAttention]] = []
    for block, before, (name, options) in zip(model.blocks, attention_of(model), wanted):  # type: ignore[arg-type]
        if (name, options) == before:
            continue
        if name == "softmax":
            raise InvalidArgumentError("softmax cannot be put back: make the model anew, and load its weights")
        made.append((block, MECHANISMS[name].in_place_of(block.attn, num_prefix_tokens=prefix,
                                                         training_tokens=prefix + rows * columns, **options)))
    for block, attention in made:  # all or none
        block.attn = attention
    return model
