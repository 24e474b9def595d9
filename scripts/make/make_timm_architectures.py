#!/usr/bin/env python3
"""Writes what timm builds under each of its names for vision transformers: tests/data/architectures.json with all of it,
and model/config/timm_models.inc with what a checkpoint's reader needs: heads, eps, pooling, or the parts that are lacking.

Every number is read off the modules that timm makes (on the meta device: no memory, no weights) and off its
pretrained configuration, so that tests/model/config/architectures_test.cpp compares our tables with timm itself.

    python -m venv venv && venv/bin/pip install torch timm==1.0.31
    venv/bin/python scripts/make/make_timm_architectures.py
"""
import json
import pathlib
import re

import timm
import torch
from timm.models import _registry

ROOT = pathlib.Path(__file__).resolve().parents[2]
# timm's files of plain vision transformers; every other file is a family of its own.
PLAIN = ("vision_transformer", "deit", "beit", "eva", "vision_transformer_relpos")
VERSION = "1.0.31"
# The models whose rotations of queries and keys have the settings of a row of model/config/architectures.cpp.
WITH_ROTATIONS = re.compile(
    r"vit_(small|base|large)_patch16_(rope(_mixed)?(_ape)?_224|dinov3(_qkvb)?)"
    r"|vit_(small|huge)_plus_patch16_dinov3(_qkvb)?"
    r"|eva02_(tiny|small)_patch14_(224|336)|eva02_(base|large)_patch14_(224|448)"
)
TRANSFORM = ("input_size", "crop_pct", "crop_mode", "interpolation", "mean", "std")


def transform_of(config):
    return {key: getattr(config, key) for key in TRANSFORM}


def kind(module):
    return type(module).__name__


def is_norm(module):
    return kind(module) not in ("NoneType", "Identity")


def lacking_parts(name, model):
    """The parts of timm's model that the network of this project does not have."""
    block = model.blocks[0]
    attention, mlp, patches = getattr(block, "attn", None), getattr(block, "mlp", None), model.patch_embed
    kinds = {kind(module) for module in model.modules()}
    bare = [key for key, module in model.named_modules()
            if key.endswith((".proj", ".fc1", ".fc2")) and getattr(module, "bias", 0) is None]
    gamma = [getattr(block, f"gamma_{i}", None) is not None for i in (1, 2)]
    parts = {
        "differential attention": kind(attention).startswith("Diff") or kind(block).startswith("Diff"),
        "parallel blocks": "Parallel" in kind(block),
        "RMSNorm": "RmsNorm" in kinds,
        "norms of queries and keys": is_norm(getattr(attention, "q_norm", None)),
        "grouped-query attention": getattr(attention, "num_kv_heads", None) not in (
            None, getattr(attention, "num_heads", None)),
        "a LayerScale of attention alone": gamma == [True, False],
        "one table of relative positions for all layers": (
            getattr(model, "shared_rel_pos", None) or getattr(model, "rel_pos_bias", None)) is not None,
        "rotations with settings of its own": (
            getattr(model, "rope", None) is not None and not WITH_ROTATIONS.fullmatch(name) and not rotations(model)),
        "a norm of the patches": is_norm(getattr(patches, "norm", None)),
        "an embedding of patches without a bias": (
            "patch_embed.proj" in bare and not is_norm(getattr(model, "norm_pre", None))),
        "linear layers without biases": any(key.startswith("blocks") for key in bare),
        "attention pooling with settings of its own": (
            getattr(model, "global_pool", None) == "map" and (
                model.attn_pool.pos_embed is not None or model.attn_pool.latent.shape[1] != 1
                or model.attn_pool.mlp.fc1.out_features != mlp.fc2.in_features)),
    }
    return ", ".join(part for part, found in parts.items() if found)


def rotations(model):
    """The settings of a model's rotations, by a word of model/config/timm_models.cpp; "" for others."""
    rope, grid = getattr(model, "rope", None), model.patch_embed.grid_size
    if rope is None or getattr(model, "rope_mixed", False) or rope.feat_shape not in (None, tuple(grid)):
        return ""
    half = getattr(model.blocks[0].attn, "rotate_half", False)
    if kind(rope) == "RotaryEmbeddingDinoV3":
        same = rope.temperature == 100 and rope.grid_indexing == "ij" and rope.grid_offset == 0 and half
        return "dinov3" if same and rope.normalize_coords == "separate" else ""
    if kind(rope) != "RotaryEmbeddingCat" or rope.temperature != 10000 or rope.in_pixels or half:
        return ""
    if rope.grid_indexing == "ij":
        return "eva02" if rope.ref_feat_shape == (16, 16) and rope.grid_offset == 0 else ""
    return {0: "pe_from_0", 1: "pe"}.get(rope.grid_offset, "") if rope.ref_feat_shape == tuple(grid) else ""


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
    pool = model.attn_pool if getattr(model, "global_pool", None) == "map" else None
    pool_heads = pool.num_heads if pool is not None else 0
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
        "act": {"QuickGELU": "quick_gelu", "GELUTanh": "gelu_tanh"}.get(kind(getattr(mlp, "act", None)), "gelu"),
        "post_norm": "Post" in kind(block),
        "pool_heads": pool_heads if pool_heads != getattr(attention, "num_heads", 0) else 0,
        # Eva's attention pooling has no setting for that.
        "pool_prefix": pool is not None and (kind(model) == "Eva" or model.pool_include_prefix),
        "rotations": "" if WITH_ROTATIONS.fullmatch(name) else rotations(model),
        "final_norm": is_norm(getattr(model, "norm", None)) or is_norm(getattr(model, "fc_norm", None)),
        # The parts that other networks would be needed for.
        "kinds": {
            "block": kind(block), "attention": kind(attention), "mlp": kind(mlp),
            "activation": kind(getattr(mlp, "act", None)), "norm": kind(getattr(block, "norm1", None)),
            "norm_pre": kind(getattr(model, "norm_pre", None)), "q_norm": kind(getattr(attention, "q_norm", None)),
            "last_norm": "LayerNorm" if "LayerNorm" in {kind(getattr(model, "norm", None)), kind(getattr(model, "fc_norm", None))} else "",
        },
        "lacks": lacking_parts(name, model),
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


def module_of(name):
    return timm.models.model_entrypoint(name).__module__.split(".")[-1]


def prefixes(names, others):
    """The fewest beginnings, of a whole word at least, that all of `names` have and none of `others` has."""
    found = []
    for name in sorted(names):
        if found and name.startswith(tuple(found)):
            continue
        word = len(re.match("[a-z]+", name)[0])
        lengths = [at for at in range(word, len(name) + 1) if not any(other.startswith(name[:at]) for other in others)]
        found.append(name[:lengths[0]] if lengths else name)
    return found


def write_table(models):
    """One line a name."""
    lines = [f"// Made by scripts/make/make_timm_architectures.py from timm {VERSION}: its plain vision transformers, names",
             "// that it has given up for them, and its other families with the beginnings of their names.",
             "// COMPUTED(name, embed_dim, patch_size, depth, num_heads, layer_norm_eps, global_pool, act, final_norm, post_norm, pool_heads, pool_prefix, rotations)"]
    for name, row in sorted(models.items()):
        if row["lacks"]:
            lines.append(f'LACKS("{name}", "{row["lacks"]}")')
        else:
            lines.append(f'COMPUTED("{name}", {row["embed_dim"]}, {row["patch_size"]}, {row["depth"]}, '
                         f'{row["num_heads"]}, {row["layer_norm_eps"]:g}, {row["global_pool"]}, {row["act"]}, '
                         f'{str(row["final_norm"]).lower()}, {str(row["post_norm"]).lower()}, {row["pool_heads"]}, {str(row["pool_prefix"]).lower()}, '
                         f'"{row["rotations"]}")')
    for old, new in sorted(_registry._deprecated_models.items()):
        if new.split(".")[0] in models:
            lines.append(f'FORMER("{old}", "{new}")')
    everything = timm.list_models()
    for family in sorted({module_of(name) for name in everything} - set(PLAIN)):
        own = [name for name in everything if module_of(name) == family]
        lines.append(f'FAMILY("{family}", "{" ".join(prefixes(own, set(everything) - set(own)))}")')
    (ROOT / "model/config/timm_models.inc").write_text("\n".join(lines) + "\n")


def main():
    if timm.__version__ != VERSION:
        raise SystemExit(f"expected timm {VERSION}, found {timm.__version__}")
    models = {name: describe(name) for name in timm.list_models() if module_of(name) in PLAIN}
    write_table(models)
    rows = [f"    {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in sorted(models.items())]
    file = ROOT / "tests/data/architectures.json"
    file.write_text('{\n  "timm": "%s",\n  "models": {\n%s\n  }\n}\n' % (VERSION, ",\n".join(rows)))
    print(f"{len(rows)} models -> {file}")


if __name__ == "__main__":
    main()
