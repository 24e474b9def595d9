"""Models of timm as files that the program reads, and back."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from safetensors.torch import save_file
from torch import Tensor, nn

from .. import _library, _metadata
from ..errors import (InvalidArgumentError, NotFoundError, UnreadableError, UnsupportedFormatError,
                      UnwritableError)
from .replacement import attention_of, has_plain_blocks, put_layers, replace_attention


def _is_identity(module: object) -> bool:
    return module is None or isinstance(module, nn.Identity)


_SETTINGS = ("eps", "approximate", "num_heads", "rotate_half", "temperature", "grid_offset", "grid_indexing", "ref_feat_shape")


def _parts(module: nn.Module) -> list[tuple[str, Any]]:
    """What a part computes beside its tensors: classes and settings of what it is made of, but for what is for training alone."""
    return [(name, (type(one).__name__, *(getattr(one, setting, None) for setting in _SETTINGS)))
            for name, one in module.named_modules() if not _is_identity(one) and "Drop" not in type(one).__name__]


def _check_parts(model: Any) -> None:
    """Refuses plain blocks with another part in them, a block that is not as the first is, and what else no tensor shows."""
    def refuse(name: str, found: object, wanted: str) -> None:
        raise InvalidArgumentError(f"the program has no such transformer: {name} is {found}, not {wanted}")
    first = model.blocks[0]
    for name, one in model.named_modules():
        place = name.partition(".")[2].partition(".")[2] if name.startswith("blocks.") else name
        if place in ("norm1", "norm2", "norm", "fc_norm"):
            if not _is_identity(one) and not isinstance(one, nn.LayerNorm):
                refuse(name, type(one).__name__, "LayerNorm")
            if not _is_identity(one) and one.eps != first.norm1.eps:
                refuse(f"{name}.eps", one.eps, f"{first.norm1.eps} as blocks.0.norm1's")
        elif place == "mlp.act":
            if not isinstance(one, nn.GELU) or one.approximate != "none":
                refuse(name, repr(one), "exact GELU")
        elif place.endswith(("_drop", "drop1", "drop2", "drop_path1", "drop_path2", "attn.norm", "q_norm", "k_norm")):
            if not _is_identity(one) and "Drop" not in type(one).__name__:
                refuse(name, type(one).__name__, "nothing or a dropout")
    for index, block in enumerate(model.blocks):
        for what in ("attn.num_heads", "mlp.fc1.out_features"):
            found, wanted = (functools.reduce(getattr, what.split("."), one) for one in (block, first))
            if found != wanted:
                refuse(f"blocks.{index}.{what}", found, f"{wanted} as blocks.0's")
        for what in ("attn.qkv.bias", "ls1.gamma", "ls2.gamma"):
            found, wanted = (what in dict(one.named_parameters()) for one in (block, first))
            if found != wanted:
                refuse(f"blocks.{index}.{what}", "there" if found else "missing", f"{'there' if wanted else 'missing'} as in blocks.0")


def _config(model: Any, arch: str) -> dict[str, Any] | None:
    """A `VitConfig` of the program; nothing where the model has parts that those lack."""
    if not has_plain_blocks(model) or not _metadata.are_known(model.state_dict()):
        return None
    block = model.blocks[0]
    plain = (_is_identity(getattr(model, "norm_pre", None)) and getattr(model, "rope", None) is None
             and getattr(model, "attn_pool", None) is None and model.pos_embed is not None and hasattr(block.mlp, "fc2")
             and not hasattr(block.mlp, "fc1_g") and block.mlp.fc1.out_features == block.mlp.fc2.in_features
             and _is_identity(getattr(block.mlp, "norm", None)) and model.global_pool in ("token", "avg"))
    if not plain:
        return None
    _check_parts(model)
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
        **_metadata.kept_config(_kept(model)),
        "attention": [name if not options else {"mechanism": name, "options": options}
                      for name, options in attention_of(model)]}


def _unseen(model: Any, blocks: list[Any]) -> dict[str, object]:
    """Facts about a transformer's answers that no tensor's name or shape shows."""
    beside = [(name, _parts(one)) for name, one in model.named_children() if name not in ("blocks", "patch_embed", "head")]
    return {"global_pool": getattr(model, "global_pool", None), "parts beside its blocks": beside,
            **{f"blocks.{index}": _parts(block) for index, block in enumerate(blocks)}}


def _check_as_made(model: Any, arch: str) -> None:
    """Refuses a transformer that the program knows by its architecture's name alone, and that is not as timm makes it."""
    pool = getattr(model, "global_pool", None)
    import timm
    if timm.is_model(arch):
        with torch.device("meta"):
            like = timm.create_model(arch, num_classes=model.num_classes)
        made = _unseen(like, [like.blocks[0]] * len(model.blocks))
        differ = [name for name, value in _unseen(model, list(model.blocks)).items() if value != made[name]]
    else:
        differ = ["global_pool"] if pool not in ("token", "avg") else []
    if differ:
        raise InvalidArgumentError(f"the program has no such transformer: unlike timm's {arch or 'plain ones'} in its "
                                   f"{' and '.join(differ)} (global_pool {pool})")


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that make timm's transformer of a `VitConfig`."""
    same = ("patch_size", "in_chans", "embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias", "class_token", "reg_tokens",
            "no_embed_class", "global_pool", "fc_norm")
    made = {name: config[name] for name in same if name in config}
    if "layer_scale" in config:
        made["init_values"] = config.get("init_values", 1e-5) if config["layer_scale"] else None
    if "layer_norm_eps" in config:
        made["norm_layer"] = functools.partial(nn.LayerNorm, eps=config["layer_norm_eps"])
    if "img_height" in config:
        made["img_size"] = (config["img_height"], config["img_width"])
    return made


def _cfg(model: nn.Module) -> dict[str, Any]:
    """timm's facts of the model, how its pictures are prepared among them."""
    return getattr(model, "pretrained_cfg", None) or {}


def _kept(model: nn.Module) -> dict[str, Any]:
    return getattr(model, _metadata.KEPT, {})


def _input_size(model: Any) -> tuple[int, int, int]:
    """Channels, height and width of the pictures that a model of timm is for: of its table, or where it takes every size, of
    its configuration."""
    usual = _cfg(model).get("input_size") or (3, 224, 224)
    own = None if getattr(model, "dynamic_img_size", False) else getattr(model.patch_embed, "img_size", None)
    size = own or usual[1:]
    return getattr(getattr(model.patch_embed, "proj", None), "in_channels", usual[0]), *size


def is_state(model: object) -> bool:
    """Whether this is a state dict."""
    return isinstance(model, Mapping) and len(model) > 0 and all(isinstance(one, Tensor) for one in model.values())


def save(model: nn.Module | Mapping[str, Tensor], file: str | os.PathLike[str], *, arch: str | None = None) -> None:
    """Writes a timm vision transformer, its attention, size and transform (`pretrained_cfg`) included, or a state dict with
    the name of its architecture, as safetensors that the program reads. A model that `load` made keeps what its file said
    of its classes, licence and origin. A model without a classifier (`num_classes=0`) makes a file without one, which
    `embed` takes, and `hydrascope train`, which makes one."""
    _save(model, file, arch, {})


def save_with_head(model: nn.Module | Mapping[str, Tensor], file: str | os.PathLike[str], arch: str | None) -> None:
    """The same; a model without a classifier gets one of a single class, which nobody asks."""
    head: dict[str, Tensor] = {}
    if isinstance(model, nn.Module) and getattr(model, "num_classes", None) == 0:
        for name in ("head", "head_dist"):
            if hasattr(model, name):
                head |= {f"{name}.weight": torch.zeros(1, model.num_features), f"{name}.bias": torch.zeros(1)}  # type: ignore[call-overload]
    _save(model, file, arch, head)


def _save(model: nn.Module | Mapping[str, Tensor], file: str | os.PathLike[str], arch: str | None,
          head: Mapping[str, Tensor]) -> None:
    path = os.fspath(file)
    if not path.startswith(("/dev/", "/proc/")):  # descriptors of this process
        path = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(path)):
        raise UnwritableError(f"there is no such folder ({os.path.dirname(os.fspath(file))})", os.fspath(file))
    metadata = {"format": "pt"}
    if isinstance(model, nn.Module):
        if not hasattr(model, "blocks") or not hasattr(model, "patch_embed"):
            raise InvalidArgumentError(f"expected a vision transformer of timm or a state dict, found {type(model).__name__}")
        cfg = _cfg(model)
        arch = arch or cfg.get("architecture") or ""
        config = _config(model, arch)
        metadata |= {"created_by": _metadata.CREATED_BY, "transform": json.dumps(_metadata.transform_of(cfg, _input_size(model)))}
        if config is not None:
            metadata |= _metadata.kept_metadata(_kept(model), cfg, model.num_classes)  # type: ignore[arg-type]
            metadata |= {"hydrascope.schema": "1", "hydrascope.config": json.dumps(config), "arch": arch, "complete": "yes"}
        elif any(name != "softmax" for name, _ in attention_of(model)):
            raise InvalidArgumentError("the program has no such transformer: only one with plain blocks can have another "
                                       "attention")
        else:
            _check_as_made(model, arch)
        state: Mapping[str, Tensor] = model.state_dict()
    elif isinstance(model, Mapping) and is_state(model):
        state = model
    else:
        raise InvalidArgumentError(f"expected a vision transformer of timm or a state dict, found {type(model).__name__}")
    if arch:
        metadata["arch"] = arch
    tensors = {name: one.detach().cpu().contiguous().clone() for name, one in {**state, **head}.items()}
    try:
        _write(tensors, path, metadata)
    except (OSError, SafetensorError) as error:
        raise UnwritableError(f"{error} ({os.fspath(file)})", os.fspath(file)) from error


def _write(tensors: dict[str, Tensor], path: str, metadata: dict[str, str]) -> None:
    """The file is whole or as it was, and has the mode that others have here: safetensors makes files for their owner alone."""
    if path.startswith(("/dev/", "/proc/")) or (os.path.exists(path) and not os.path.isfile(path)):  # no file to replace
        with open(path, "ab") as stream:
            stream.write(to_bytes(tensors, metadata))
        return
    with tempfile.TemporaryDirectory(prefix=".hydrascope-", dir=os.path.dirname(path)) as folder:
        inside = os.path.join(folder, "model")
        with open(inside, "xb") as empty:
            mode = os.fstat(empty.fileno()).st_mode
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
        save_file(tensors, inside, metadata)
        os.chmod(inside, mode & 0o777)
        os.replace(inside, path)


def load(file: str | os.PathLike[str], model: nn.Module | None = None) -> nn.Module:
    """A file of the program's, or of `save`, as a timm model with the file's attention and transform (`pretrained_cfg`); or
    into `model`, whose attention and transform become the file's. `file` may also be the name of a bundled model, or a
    folder of timm's with its config.json. Needs mechanisms that have modules here. A file without a classifier makes a
    model without one."""
    path = os.fspath(file)
    if not os.path.exists(path) and os.sep not in path:
        from ..conversion import run
        path = run("models", "path", path).rstrip("\n")
    if os.path.isdir(path):
        if (Path(path) / "config.json").exists():
            return _of_folder(path, model)
        path = os.path.join(path, "model.safetensors")
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
    config = _library.config(path) if "hydrascope.config" in metadata else {}
    _metadata.check_rules(config, path)
    if model is None:
        if not metadata.get("arch"):
            raise InvalidArgumentError(f"the file does not say which architecture it holds: give a model of it ({path})")
        import timm
        if not timm.is_model(metadata["arch"]):
            raise InvalidArgumentError(f"timm has no model '{metadata['arch']}': give a model like the file's ({path})")
        arguments = _arguments(config)
        size = _metadata.said_transform(metadata).get("input_size")
        if not config and size and size[1:] != list(timm.get_pretrained_cfg(metadata["arch"]).input_size[1:]):
            arguments["img_size"] = tuple(size[1:])
        if config and size and size[1:] != [config.get("img_height"), config.get("img_width")]:
            arguments["dynamic_img_size"] = True
        model = timm.create_model(metadata["arch"], num_classes=len(state.get("head.weight", ())), **arguments)
    if config.get("attention"):
        put_layers(model, _library.layers(config["attention"]))
    if not config and metadata.get("attention", "softmax") != "softmax":
        replace_attention(model, metadata["attention"])
    if config:
        _metadata.check_same(config, _config(model, ""), path)
    reference = next(model.parameters())
    try:
        model.load_state_dict({name: one.to(reference.dtype) if one.is_floating_point() else one for name, one in state.items()})
    except RuntimeError as error:
        raise InvalidArgumentError(f"the file does not fit the model: {error} ({path})") from error
    _set_cfg(model, _metadata.with_transform(_cfg(model), metadata))
    setattr(model, _metadata.KEPT, _metadata.kept_of(metadata, len(state.get("head.weight", ()))))
    return model


def _set_cfg(model: Any, cfg: dict[str, Any]) -> None:
    model.pretrained_cfg = model.default_cfg = cfg


def _of_folder(folder: str, model: nn.Module | None) -> nn.Module:
    """As timm opens a folder of its own, or of a hub's."""
    import timm
    try:
        made = timm.create_model(f"local-dir:{folder}", pretrained=True)
        if model is None:
            return made
        model.load_state_dict(made.state_dict())
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        raise InvalidArgumentError(f"timm cannot open the folder: {error} ({folder})") from error
    _set_cfg(model, dict(_cfg(made)))
    return model
