#!/usr/bin/env python3
"""Writes tests/data/architectures.json: what timm builds under each of its names for vision transformers.

Every number is read off the modules that timm makes (on the meta device: no memory, no weights) and off its
pretrained configuration, so that tests/model/config/architectures_test.cpp compares our table with timm itself.

    python -m venv venv && venv/bin/pip install torch timm==1.0.31
    venv/bin/python scripts/make/make_timm_architectures.py
"""
import json
import pathlib
import re

import timm
import torch
from timm.models import is_model_in_modules

VERSION = "1.0.31"
# Of the models with position rules those that are Vision Transformers but for the rule.
WITH_RULE = re.compile(
    r"vit_(small|base|large)_patch16_(rope(_mixed)?(_ape)?_224|dinov3(_qkvb)?)"
    r"|vit_(small|huge)_plus_patch16_dinov3(_qkvb)?"
    r"|eva02_(tiny|small)_patch14_(224|336)|eva02_(base|large)_patch14_(224|448)"
    r"|beit(v2)?_(base|large)_patch16_(224|384|512)"
    r"|vit_relpos_(small_patch16|medium_patch16(_cls)?|base_patch16(_clsgap)?)_224"
)
TRANSFORM = ("input_size", "crop_pct", "crop_mode", "interpolation", "mean", "std")


def transform_of(config):
    return {key: getattr(config, key) for key in TRANSFORM}


def kind(module):
    return type(module).__name__


def describe(name):
    with torch.device("meta"):
        model = timm.create_model(name)
    block = model.blocks[0]
    attention, mlp, patches = getattr(block, "attn", None), getattr(block, "mlp", None), model.patch_embed
    classes = (1 if getattr(model, "cls_token", None) is not None else 0) + (1 if hasattr(model, "dist_token") else 0)
    position = getattr(model, "pos_embed", None)
    scale = getattr(block, "ls1", None)
    table = getattr(attention, "relative_position_bias_table", None)
    gamma = getattr(block, "gamma_1", None)
    q_bias = getattr(attention, "q_bias", None)
    qkv = getattr(attention, "qkv", None) or getattr(attention, "q_proj", None)
    config = timm.get_pretrained_cfg(name)
    row = {
        "embed_dim": model.embed_dim,
        "depth": len(model.blocks),
        "num_heads": getattr(attention, "num_heads", None) or getattr(block, "num_heads", None),
        "patch_size": patches.patch_size[0],
        "img_size": list(patches.img_size),
        "hidden_dim": mlp.fc2.in_features if kind(mlp) in ("Mlp", "GluMlp", "SwiGLU") else None,
        "num_classes": model.num_classes,
        "qkv_bias": qkv is not None and (qkv.bias is not None or q_bias is not None),
        "class_token": getattr(model, "cls_token", None) is not None,
        "distilled": hasattr(model, "dist_token"),
        "reg_tokens": model.num_prefix_tokens - classes,
        "positions": position.shape[1] if position is not None else 0,
        "init_values": getattr(scale, "init_values", None) if scale is not None else None,
        "layer_scale": gamma is not None or (scale is not None and kind(scale) == "LayerScale"),
        "global_pool": getattr(model, "global_pool", None),
        "fc_norm": kind(getattr(model, "fc_norm", None)) == "LayerNorm",
        "layer_norm_eps": getattr(getattr(block, "norm1", None), "eps", None),
        # What another network would be needed for.
        "kinds": {
            "block": kind(block), "attention": kind(attention), "mlp": kind(mlp),
            "activation": kind(getattr(mlp, "act", None)), "norm": kind(getattr(block, "norm1", None)),
            "norm_pre": kind(getattr(model, "norm_pre", None)), "q_norm": kind(getattr(attention, "q_norm", None)),
            "last_norm": "LayerNorm" if "LayerNorm" in {kind(getattr(model, "norm", None)), kind(getattr(model, "fc_norm", None))} else "",
        },
        "tag": config.tag or "",
        "transform": transform_of(config),
    }
    if kind(getattr(mlp, "norm", None)) == "LayerNorm":
        row["kinds"]["mlp_norm"] = "LayerNorm"
    if table is not None:  # BEiT's
        row["kinds"]["rel_pos"] = "table"
    tags = {}
    for full in timm.list_pretrained():
        base, _, tag = full.partition(".")
        if base == name and tag:
            tags[tag] = transform_of(timm.get_pretrained_cfg(full))
    # Only what is not as with the default tag.
    row["tags"] = {tag: {key: value for key, value in each.items() if value != row["transform"][key]}
                   for tag, each in sorted(tags.items())}
    return row


def main():
    if timm.__version__ != VERSION:
        raise SystemExit(f"expected timm {VERSION}, found {timm.__version__}")
    names = [name for name in timm.list_models()
             if is_model_in_modules(name, ["vision_transformer", "deit"]) or WITH_RULE.fullmatch(name)]
    rows = [f"    {json.dumps(name)}: {json.dumps(describe(name), separators=(',', ':'))}" for name in sorted(names)]
    file = pathlib.Path(__file__).resolve().parents[2] / "tests/data/architectures.json"
    file.write_text('{\n  "timm": "%s",\n  "models": {\n%s\n  }\n}\n' % (VERSION, ",\n".join(rows)))
    print(f"{len(rows)} models -> {file}")


if __name__ == "__main__":
    main()
