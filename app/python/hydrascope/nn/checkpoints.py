"""Models of timm with attentions of the program, as files that the program reads, and back."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from .. import _library, _metadata
from ..errors import InvalidArgumentError, NotFoundError, UnreadableError, UnsupportedFormatError, UnwritableError
from .attention import Attention


def _is_identity(module: object) -> bool:
    return module is None or isinstance(module, nn.Identity)


def _is_transformer(model: object) -> bool:
    return isinstance(model, nn.Module) and hasattr(model, "blocks") and hasattr(model, "patch_embed")


def is_state(model: object) -> bool:
    """Whether this is a state dict."""
    return isinstance(model, Mapping) and len(model) > 0 and all(isinstance(one, Tensor) for one in model.values())


def attention_of(model: nn.Module) -> list[tuple[str, dict[str, str]]]:
    """The mechanism of each layer and its options."""
    found = [getattr(one, "attn", None) for one in model.blocks]  # type: ignore[union-attr]
    return [(one.mechanism, one.options) if isinstance(one, Attention) else ("softmax", {}) for one in found]


def _foreign_blocks(model: Any) -> list[str]:
    """Those that are not timm's `vision_transformer.Block` with its `Attention`, or with one of ours."""
    from timm.models import vision_transformer as timm

    def name(module: object) -> str:  # timm has several classes of one name: beit.Block
        return f"{type(module).__module__.rpartition('.')[2]}.{type(module).__name__}"
    return sorted({f"{name(one)} with {name(getattr(one, 'attn', None))}" for one in model.blocks
                   if type(one) is not timm.Block or not (type(one.attn) is timm.Attention or isinstance(one.attn, Attention))})


def replace_attention(model: nn.Module, attn: str, *, attn_opt: str | Sequence[str] = ()) -> nn.Module:
    """Gives layers of a timm vision transformer another attention, in place, and returns the model.

    `attn` is as `--attn`: "hydra:last2", "softmax:0-9,hydra:10-11", "hedgehog"; `attn_opt` as `--set attn-opt=`:
    "hydra.feature_scale=on", "hedgehog:0-5.variant=softmax2". The projections stay; what a mechanism adds starts as the
    program starts it. Refused, and left as they are, are models with other blocks or another attention than those of timm's
    `vision_transformer`: EVA, BEiT, CaiT, DINOv3, rotary and relative positions, norms of queries and keys.
    """
    if not _is_transformer(model):
        raise InvalidArgumentError(f"expected a vision transformer of timm, found {type(model).__name__}")
    if found := _foreign_blocks(model):
        raise InvalidArgumentError("expected vision_transformer.Block with attention.Attention, found "
                                   f"{', '.join(found)} ({type(model).__name__})")
    before = [{"mechanism": name, "options": options} for name, options in attention_of(model)]
    return _put_layers(model, _library.layers(before, attn=attn, set={"attn-opt": attn_opt}))


def _put_layers(model: Any, layers: list[dict[str, Any]]) -> Any:
    """The same with each layer's mechanism and all of its options."""
    made: list[tuple[nn.Module, Attention]] = []
    plain = _library.layers(["softmax"])[0]["options"]
    for index, (block, before, layer) in enumerate(zip(model.blocks, attention_of(model), layers)):
        name, options = layer["mechanism"], layer["options"]
        if (name, options) == before or (before[0] == name == "softmax" and options == plain):
            continue
        made.append((block, Attention.in_place_of(
            block.attn, mechanism=name, training_grid=(int(model.num_prefix_tokens), *model.patch_embed.grid_size), layer=index,
            depth=len(model.blocks), **options)))
    for block, attention in made:  # all or none
        block.attn = attention
    return model


def _config(model: Any, arch: str) -> dict[str, Any] | None:
    """A `VitConfig` of the program; nothing where the model has parts that those lack."""
    block = model.blocks[0]
    ours = tuple(f"{name}." for name, one in model.named_modules() if isinstance(one, Attention))
    if _foreign_blocks(model) or model.pos_embed is None or model.global_pool not in ("token", "avg") or \
            not hasattr(block.mlp, "fc2") or block.mlp.fc1.out_features != block.mlp.fc2.in_features:
        return None
    height, width = model.patch_embed.img_size
    config = {
        "arch": arch, "img_height": height, "img_width": width, "patch_size": model.patch_embed.patch_size[0],
        "in_chans": model.patch_embed.proj.in_channels, "num_classes": model.num_classes,
        "embed_dim": model.embed_dim, "depth": len(model.blocks), "num_heads": block.attn.num_heads,
        "mlp_ratio": block.mlp.fc1.out_features / model.embed_dim, "qkv_bias": block.attn.qkv.bias is not None,
        "class_token": model.cls_token is not None, "distilled": getattr(model, "dist_token", None) is not None,
        "reg_tokens": getattr(model, "num_reg_tokens", 0), "no_embed_class": bool(model.no_embed_class),
        "layer_scale": hasattr(block.ls1, "gamma"), "init_values": 1e-5, "global_pool": model.global_pool,
        "fc_norm": not _is_identity(model.fc_norm), "layer_norm_eps": block.norm1.eps,
        **_metadata.kept_config(_kept(model)),
        "attention": [name if not options else {"mechanism": name, "options": options}
                      for name, options in attention_of(model)]}
    found, wanted = ({name for name in one.state_dict() if not name.startswith(ours)} for one in (model, _like(model, config)))
    return config if found == wanted else None


def _like(model: Any, config: Mapping[str, Any]) -> Any:
    """timm's transformer of a `VitConfig`, without numbers."""
    with torch.device("meta"):
        return type(model)(num_classes=model.num_classes, **_arguments(config))


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that make timm's transformer of a `VitConfig`; none without one."""
    if not config:
        return {}
    same = ("patch_size", "in_chans", "embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias", "class_token", "reg_tokens",
            "no_embed_class", "global_pool", "fc_norm")
    return {**{name: config[name] for name in same}, "img_size": (config["img_height"], config["img_width"]),
            "init_values": config["init_values"] if config["layer_scale"] else None,
            "norm_layer": functools.partial(nn.LayerNorm, eps=config["layer_norm_eps"])}


_SETTINGS = ("num_heads", "rotate_half", "temperature", "grid_offset", "grid_indexing", "ref_feat_shape")


def _parts(model: Any) -> dict[str, str]:
    """The parts of a model: classes and settings of its modules, but for what is for training alone, and its pooling."""
    def shown(one: nn.Module) -> str:
        settings = [one.extra_repr(), *(f"{name}={getattr(one, name)}" for name in _SETTINGS if hasattr(one, name))]
        return f"{type(one).__name__}({', '.join(filter(None, settings))})"
    return {"global_pool": str(getattr(model, "global_pool", None)),
            **{name: shown(one) for name, one in model.named_modules()
               if name and name != "head" and not _is_identity(one) and "Drop" not in type(one).__name__}}


def _check_as_made(model: Any, arch: str, config: dict[str, Any] | None) -> None:
    """Refuses a transformer that no tensor's name or shape tells from the one that the program computes: timm's of this
    configuration, or architecture."""
    import timm
    if config is None and not timm.is_model(arch):
        return
    with torch.device("meta"):
        if config is None:
            like = timm.create_model(arch, num_classes=model.num_classes)
        else:
            like = _put_layers(_like(model, config), _library.layers(config["attention"]))
    found, wanted = _parts(model), _parts(like)
    for name, part in found.items():
        of_first = "blocks.0." + name.split(".", 2)[-1] if name.startswith("blocks.") else name
        expected = wanted.get(name) or wanted.get(of_first if name.count(".") > 1 else "blocks.0", "nothing")
        if part != expected:
            raise InvalidArgumentError(f"the program has no such transformer: {name} is {part}, not {expected}")


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


def save(model: nn.Module | Mapping[str, Tensor], file: str | os.PathLike[str], *, arch: str | None = None) -> None:
    """Writes a timm vision transformer, its attention, size and transform (`pretrained_cfg`) included, or a state dict with
    the name of its architecture, as safetensors that the program reads. A model that `load` made keeps what its file said
    of its classes, licence and origin. A model without a classifier (`num_classes=0`) makes a file without one, which
    `embed` takes, and `hydrascope train`, which makes one."""
    path, given = os.fspath(file), os.fspath(file)
    if not path.startswith(("/dev/", "/proc/")):  # descriptors of this process
        path = os.path.realpath(path)
        if os.path.isfile(path) and os.path.getsize(path) > 0 and not _is_own(path):
            raise InvalidArgumentError(f"would replace a file that holds no weights of hydrascope ({given})", given)
    if not os.path.isdir(os.path.dirname(path)):
        raise UnwritableError(f"there is no such folder ({os.path.dirname(given)})", given)
    metadata = {"format": "pt", "created_by": "hydrascope"}
    if isinstance(model, nn.Module) and _is_transformer(model):
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
        _check_as_made(model, arch, config)
        state = dict(model.state_dict())
    elif is_state(model):
        state = dict(model)  # type: ignore[arg-type]
    else:
        raise InvalidArgumentError(f"expected a vision transformer of timm or a state dict, found {type(model).__name__}")
    if arch:
        metadata["arch"] = arch
    tensors = {name: one.detach().cpu().contiguous().clone() for name, one in state.items()}
    try:
        _write(to_bytes(tensors, metadata), path)
    except (OSError, SafetensorError) as error:
        raise UnwritableError(f"{error} ({given})", given) from error


def _is_own(path: str) -> bool:
    """Whether the file shows that hydrascope wrote it as weights."""
    try:
        with safe_open(path, "pt") as opened:
            metadata = opened.metadata() or {}
    except (OSError, SafetensorError):
        return False
    return metadata.get("created_by", "").startswith("hydrascope") and "hydrascope.store" not in metadata


def _write(data: bytes, path: str) -> None:
    """The file is whole or as it was; a pipe is no file to replace."""
    if path.startswith(("/dev/", "/proc/")) or (os.path.exists(path) and not os.path.isfile(path)):
        with open(path, "ab") as stream:
            stream.write(data)
        return
    new = f"{path}.{os.getpid()}.new"
    try:
        with open(new, "xb") as stream:
            stream.write(data)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(new, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(new, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def load(file: str | os.PathLike[str], model: nn.Module | None = None) -> nn.Module:
    """A file of the program's, or of `save`, as a timm model with the file's attention and transform (`pretrained_cfg`); or
    into `model`, whose attention and transform become the file's. `file` may also be the name of a bundled model, or a
    folder of timm's with its config.json. A file without a classifier makes a model without one."""
    import timm
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
    if model is None:
        if not metadata.get("arch"):
            raise InvalidArgumentError(f"the file does not say which architecture it holds: give a model of it ({path})")
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
        _put_layers(model, _library.layers(config["attention"]))
    if not config and metadata.get("attention", "softmax") != "softmax":
        replace_attention(model, metadata["attention"])
    if config:
        _metadata.check_same(config, _config(model, ""), _library.registry()["config"], path)
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
