"""`--attn` and `--attn-opt` for models of timm."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import nn

from .. import _library
from ..errors import InvalidArgumentError
from .attention import MECHANISMS, OperatorAttention

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
    before = [{"mechanism": name, "options": options} for name, options in attention_of(model)]
    return put_layers(model, _library.layers(before, attn=attn, attn_opt=[attn_opt] if isinstance(attn_opt, str) else attn_opt))


def put_layers(model: Any, layers: list[dict[str, Any]]) -> Any:
    """The same with each layer's mechanism and all of its options."""
    rows, columns = model.patch_embed.grid_size
    prefix = int(model.num_prefix_tokens)
    made: list[tuple[nn.Module, OperatorAttention]] = []
    for block, before, layer in zip(model.blocks, attention_of(model), layers):
        name = layer["mechanism"]
        if name not in ("softmax", *MECHANISMS):
            raise InvalidArgumentError(f"there is no module of '{name}', only of softmax, {', '.join(MECHANISMS)}")
        options = MECHANISMS[name].computed(layer["options"]) if name != "softmax" else {}
        if (name, options) == before:
            continue
        if name == "softmax":
            raise InvalidArgumentError("softmax cannot be put back: make the model anew, and load its weights")
        made.append((block, MECHANISMS[name].in_place_of(block.attn, num_prefix_tokens=prefix,
                                                         training_tokens=prefix + rows * columns, **options)))
    for block, attention in made:  # all or none
        block.attn = attention
    return model
