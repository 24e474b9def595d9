"""Models of timm as files that the program reads, and back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..errors import (InvalidArgumentError, NotFoundError, UnreadableError, UnsupportedFormatError,
                      UnwritableError)
from .replacement import attention_of, has_plain_blocks, replace_attention


def _is_identity(module: object) -> bool:
    return module is None or isinstance(module, nn.Identity)


def _config(model: Any, arch: str) -> dict[str, Any] | None:
    """A `VitConfig` of the program; nothing where the model has parts that those lack."""
    if not has_plain_blocks(model):
        return None
    block = model.blocks[0]
    plain = (_is_identity(getattr(model, "norm_pre", None)) and getattr(model, "rope", None) is None
             and getattr(model, "attn_pool", None) is None and model.pos_embed is not None and hasattr(block.mlp, "fc2")
             and not hasattr(block.mlp, "fc1_g") and block.mlp.fc1.out_features == block.mlp.fc2.in_features
             and _is_identity(getattr(block.mlp, "norm", None)) and model.global_pool in ("token", "avg"))
    if not plain:
        return None
    if not isinstance(block.norm1, nn.LayerNorm) or not isinstance(block.mlp.act, nn.GELU):
        raise InvalidArgumentError("the program has no such transformer: its blocks have LayerNorm and GELU, found "
                                   f"{type(block.norm1).__name__} and {type(block.mlp.act).__name__}")
    height, width = model.patch_embed.img_size
    return {
        "arch": arch, "img_height": height, "img_width": width, "patch_size": model.patch_embed.patch_size[0],
        # Without a classifier the file has none either: the number is what a new one would have.
        "in_chans": model.patch_embed.proj.in_channels, "num_classes": max(1, model.num_classes),
        "embed_dim": model.embed_dim, "depth": len(model.blocks), "num_heads": block.attn.num_heads,
        "mlp_ratio": block.mlp.fc1.out_features / model.embed_dim, "qkv_bias": block.attn.qkv.bias is not None,
        "class_token": model.cls_token is not None, "distilled": getattr(model, "dist_token", None) is not None,
        "reg_tokens": getattr(model, "num_reg_tokens", 0), "no_embed_class": bool(model.no_embed_class),
        "layer_scale": hasattr(block.ls1, "gamma"), "init_values": 1e-5, "global_pool": model.global_pool,
        "fc_norm": not _is_identity(model.fc_norm), "layer_norm_eps": block.norm1.eps,
        "attention": [name if not options else {"mechanism": name, "options": options}
                      for name, options in attention_of(model)]}


def _transform(cfg: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """timm's `pretrained_cfg` at the size that the model was made for."""
    names = ("interpolation", "crop_pct", "crop_mode", "mean", "std")
    return {"input_size": (config["in_chans"], config["img_height"], config["img_width"]),
            **{name: cfg[name] for name in names if cfg.get(name) is not None}}


def made_size(model: object) -> tuple[int, int] | None:
    """Height and width that a model of timm was made for, where they are not its architecture's."""
    size = getattr(getattr(model, "patch_embed", None), "img_size", None)
    usual = (getattr(model, "pretrained_cfg", None) or {}).get("input_size")
    return tuple(size) if size and usual and tuple(size) != tuple(usual[1:]) else None


def is_state(model: object) -> bool:
    """Whether this is a state dict."""
    return isinstance(model, Mapping) and len(model) > 0 and all(isinstance(one, Tensor) for one in model.values())


def save(model: nn.Module | Mapping[str, Tensor], file: str | os.PathLike[str], *, arch: str | None = None) -> None:
    """Writes a timm vision transformer, its attention, size and transform included, or a state dict with the name of its
    architecture, as safetensors that the program reads. A model without a classifier (`num_classes=0`) makes a file without
    one, which `embed` takes, and the program with --num-classes N --reset-head."""
    folder = os.path.dirname(os.fspath(file)) or "."
    if not os.path.isdir(folder):
        raise UnwritableError(f"there is no such folder ({folder})", os.fspath(file))
    metadata = {"format": "pt"}
    if isinstance(model, nn.Module):
        if not hasattr(model, "blocks") or not hasattr(model, "patch_embed"):
            raise InvalidArgumentError(f"expected a vision transformer of timm or a state dict, found {type(model).__name__}")
        cfg = getattr(model, "pretrained_cfg", None) or {}
        arch = arch or cfg.get("architecture") or ""
        config = _config(model, arch)
        if config is not None:
            metadata |= {"hydrascope.schema": "1", "hydrascope.config": json.dumps(config), "arch": arch,
                         "complete": "yes", "created_by": "hydrascope.nn", "transform": json.dumps(_transform(cfg, config))}
        elif any(name != "softmax" for name, _ in attention_of(model)):
            raise InvalidArgumentError("the program has no such transformer: only one with plain blocks can have another "
                                       "attention")
        state: Mapping[str, Tensor] = model.state_dict()
    elif isinstance(model, Mapping) and is_state(model):
        state = model
    else:
        raise InvalidArgumentError(f"expected a vision transformer of timm or a state dict, found {type(model).__name__}")
    if arch:
        metadata["arch"] = arch
    tensors = {name: one.detach().cpu().contiguous().clone() for name, one in state.items()}
    try:
        save_file(tensors, os.fspath(file), metadata)
    except (OSError, SafetensorError) as error:
        raise UnwritableError(f"{error} ({os.fspath(file)})", os.fspath(file)) from error


def load(file: str | os.PathLike[str], model: nn.Module | None = None) -> nn.Module:
    """A file of the program's, or of `save`, as a timm model with the file's attention; or into `model`, whose attention
    becomes the file's. Needs mechanisms that have modules here. A file without a classifier makes a model without one."""
    path = os.fspath(file)
    try:
        with safe_open(path, "pt") as opened:
            metadata = opened.metadata() or {}
            state = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise NotFoundError(f"no such file ({path})", path) from error
    except OSError as error:
        raise UnreadableError(f"{error} ({path})", path) from error
    except SafetensorError as error:
        raise UnsupportedFormatError(f"expected a safetensors file, found something else: {error} ({path})") from error
    config = json.loads(metadata.get("hydrascope.config", "{}"))
    if model is None:
        if not metadata.get("arch"):
            raise InvalidArgumentError(f"the file does not say which architecture it holds: give a model of it ({path})")
        import timm
        if not timm.is_model(metadata["arch"]):
            raise InvalidArgumentError(f"timm has no model '{metadata['arch']}': give a model like the file's ({path})")
        size = {"img_size": (config["img_height"], config["img_width"])} if config else {}
        model = timm.create_model(metadata["arch"], num_classes=len(state.get("head.weight", ())), **size)
    for layer, one in enumerate(config.get("attention", [])):
        name, options = (one, {}) if isinstance(one, str) else (one["mechanism"], one["options"])
        if name == "softmax":
            continue
        # What a file holds for older programs, or as it is without, is no option here.
        silent = {"small_tokens": "constant", "form": "bidirectional", "local": "none", "post_norm": "off"}
        replace_attention(model, f"{name}:{layer}", attn_opt=[
            f"{name}:{layer}.{key}={value}" for key, value in options.items() if silent.get(key) != value])
    if not config and metadata.get("attention", "softmax") != "softmax":
        replace_attention(model, metadata["attention"])
    reference = next(model.parameters())
    try:
        model.load_state_dict({name: one.to(reference.dtype) if one.is_floating_point() else one for name, one in state.items()})
    except RuntimeError as error:
        raise InvalidArgumentError(f"the file does not fit the model: {error} ({path})") from error
    return model
