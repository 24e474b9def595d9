"""A checkpoint's metadata beside its weights, for models of timm: dictionaries in and out, without PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import InvalidArgumentError

CREATED_BY = "hydrascope.nn"
KEPT = "hydrascope_kept"
"""The attribute of a model that holds `kept_of`."""

# The values that timm takes where its configuration says nothing (timm.data.resolve_data_config).
_TIMM = {"interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center", "mean": (0.485, 0.456, 0.406),
         "std": (0.229, 0.224, 0.225)}
# For timm's --use-test-size; nothing here reads them.
_ONLY_TIMMS = ("test_input_size", "test_crop_pct")

# Keys that `save` writes itself, and keys about the weights as they were.
_NOT_KEPT = {"format", "hydrascope.schema", "hydrascope.config", "arch", "complete", "created_by", "transform", "attention",
             "attention_options", "img_size", "num_classes", "agreement"}
_OF_CLASSES = ("labels", "label_names")
# Settings that timm's transformers lack, and do not need at the size that they were made for.
_OTHER_SIZES = ("pos_interp", "overview")


def transform_of(cfg: Mapping[str, Any], input_size: Sequence[int]) -> dict[str, Any]:
    """How timm prepares pictures by its `pretrained_cfg`, for a model made for (channels, height, width)."""
    transform: dict[str, Any] = {"input_size": list(input_size)}
    for name, usual in _TIMM.items():
        given = cfg.get(name)
        transform[name] = usual if given is None else given
    for name in ("mean", "std"):
        values = transform[name]
        values = [values] if isinstance(values, (int, float)) else list(values)
        if len(values) not in (1, input_size[0]):
            values = [sum(values) / len(values)]
        transform[name] = values * input_size[0] if len(values) == 1 else values
    return transform | {name: cfg[name] for name in _ONLY_TIMMS if cfg.get(name) is not None}


def with_transform(cfg: Mapping[str, Any], metadata: Mapping[str, str]) -> dict[str, Any]:
    """timm's `pretrained_cfg` of a model whose file has these metadata."""
    said = said_transform(metadata)
    kept = {name: value for name, value in cfg.items() if not said or name not in _ONLY_TIMMS}
    return kept | {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}


def said_transform(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Empty where the file is not of the program, or of `save`."""
    is_ours = "hydrascope.schema" in metadata or metadata.get("created_by") == CREATED_BY
    return json.loads(metadata.get("transform", "{}")) if is_ours else {}


def kept_of(metadata: Mapping[str, str], num_classes: int) -> dict[str, Any]:
    """Metadata that a model takes along from its file to its next one, and that timm has no word for."""
    config = json.loads(metadata.get("hydrascope.config", "{}"))
    return {"num_classes": num_classes, "config": {name: config[name] for name in _OTHER_SIZES if name in config},
            "metadata": {name: text for name, text in metadata.items() if name not in _NOT_KEPT}}


def kept_config(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `VitConfig`."""
    return dict(kept.get("config", {}))


def kept_metadata(kept: Mapping[str, Any], cfg: Mapping[str, Any], num_classes: int) -> dict[str, str]:
    """Licence, origin, recipe, and the names of the classes while there are as many: the program's, or timm's."""
    metadata = dict(kept.get("metadata", {}))
    if kept.get("num_classes") != num_classes:
        metadata = {name: text for name, text in metadata.items() if name not in _OF_CLASSES}
    names = cfg.get("label_names")
    if not any(name in metadata for name in _OF_CLASSES) and isinstance(names, (list, tuple)) and len(names) == num_classes:
        words = cfg.get("label_descriptions") or {}
        metadata["label_names"] = json.dumps([f"{name} {words[name]}" if words.get(name) else name for name in names])
    return metadata


def check_same(wanted: Mapping[str, Any], found: Mapping[str, Any] | None, usual: Mapping[str, Any], subject: str) -> None:
    """Refuses a model that is not the file's, though its tensors may have the same shapes. `usual` are the values of the
    fields that a transformer of timm has no word for."""
    def shown(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)
    # The second is where LayerScale starts; a model without a classifier has no classes.
    ignored = {"arch", "attention", "init_values", "num_classes", *_OTHER_SIZES}
    wanted = {**wanted, "rel_pos": [one for one in wanted.get("rel_pos", []) if one != "none"]}
    differ = [f"{name} {shown(wanted[name])}, not {shown(value)}" for name, value in {**usual, **(found or {})}.items()
              if name not in ignored and name in wanted and wanted[name] != value]
    if found is None or differ:
        raise InvalidArgumentError("the file does not fit the model: "
                                   f"{'; '.join(differ) or 'its blocks are others'} ({subject})")
