#!/usr/bin/env python3
"""Writes what timm builds under each of its names for vision transformers: tests/data/architectures.json with all of it, and
model/config/timm_models.inc with what a checkpoint's reader needs: heads, eps, pooling, or the parts that are lacking.

    python scripts/make/make_timm_architectures.py        # torch, timm 1.0.31

Every number is read off the modules that timm makes (on the meta device: no memory, no weights) and off its pretrained configuration, so
that tests/model/config/architectures_test.cpp compares our tables with timm itself.
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
# Linear layers of a block, which all have a bias or all lack it.
LAYERS = (".attn.proj", ".mlp.fc1", ".mlp.fc1_g", ".mlp.fc1_x", ".mlp.fc2")
TRANSFORM = ("input_size", "crop_pct", "crop_mode", "interpolation", "mean", "std")


def transform_of(config):
    return {key: getattr(config, key) for key in TRANSFORM}


def part(module, name):
    return getattr(module, name, None)


def kind(module):
    return type(module).__name__


def is_norm(module):
    return kind(module) not in ("NoneType", "Identity")


def lacking_parts(name, model):
    """The parts of timm's model that the network of this project does not have."""
    block = model.blocks[0]
    attention, mlp = part(block, "attn"), part(block, "mlp")
    norms = len({(kind(module), module.eps) for key, module in model.named_modules()
                 if kind(module) in ("LayerNorm", "RmsNorm") and not key.endswith("attn.sub_norm")})
    layers = {key: module for key, module in model.named_modules() if key.startswith("blocks.") and key.endswith(LAYERS)}
    without_bias = [key for key, module in layers.items() if part(module, "bias") is None]
    bare = [key for key, module in model.named_modules() if key.endswith((".proj", ".fc1", ".fc2")) and getattr(module, "bias", 0) is None]
    gamma = [part(block, f"gamma_{i}") is not None for i in (1, 2)]
    parts = {
        "differential attention": kind(attention).startswith("Diff") or kind(block).startswith("Diff"),
        "parallel blocks": "Parallel" in kind(block),
        "norms of two kinds": norms > 1,
        "norms of queries and keys": is_norm(part(attention, "q_norm")),
        "grouped-query attention": part(attention, "num_kv_heads") not in (None, part(attention, "num_heads")),
        "a LayerScale of attention alone": gamma == [True, False],
        "rotations with settings of its own": (
            part(model, "rope") is not None and not WITH_ROTATIONS.fullmatch(name) and not rotations(model)),
        "an embedding of patches without a bias": "patch_embed.proj" in bare and not is_norm(part(model, "norm_pre")),
        "some linear layers without biases": len(without_bias) not in (0, len(layers)),
        "attention pooling with settings of its own": (
            part(model, "global_pool") == "map" and (
                model.attn_pool.pos_embed is not None or model.attn_pool.latent.shape[1] != 1
                or model.attn_pool.mlp.fc1.out_features != mlp.fc2.in_features)),
    }
    return ", ".join(part for part, found in parts.items() if found)


def rotations(model):
    """The settings of a model's rotations, by a word of model/config/timm_models.cpp; "" for others."""
    rope, grid = part(model, "rope"), model.patch_embed.grid_size
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
    attention, mlp, patches = part(block, "attn"), part(block, "mlp"), model.patch_embed
    classes = (part(model, "cls_token") is not None) + hasattr(model, "dist_token")
    position, scale, gamma = part(model, "pos_embed"), part(block, "ls1"), part(block, "gamma_1")
    qkv = part(attention, "qkv") or part(attention, "q_proj")
    last_norms = [part(model, "norm"), part(model, "fc_norm")]
    config = timm.get_pretrained_cfg(name)
    pool = model.attn_pool if part(model, "global_pool") == "map" else None
    pool_heads = pool.num_heads if pool is not None else 0
    row = {
        "embed_dim": model.embed_dim, "depth": len(model.blocks),
        "num_heads": part(attention, "num_heads") or part(block, "num_heads"),
        "patch_size": patches.patch_size[0], "img_size": list(patches.img_size),
        "hidden_dim": mlp.fc2.in_features if kind(mlp) in ("Mlp", "GluMlp", "SwiGLU") else None, "num_classes": model.num_classes,
        "qkv_bias": qkv is not None and (qkv.bias is not None or part(attention, "q_bias") is not None),
        "class_token": part(model, "cls_token") is not None, "distilled": hasattr(model, "dist_token"),
        "reg_tokens": model.num_prefix_tokens - classes, "positions": position.shape[1] if position is not None else 0,
        "init_values": part(scale, "init_values") if scale is not None else None,
        "layer_scale": gamma is not None or (scale is not None and kind(scale) == "LayerScale"),
        "global_pool": part(model, "global_pool"), "fc_norm": is_norm(part(model, "fc_norm")),
        "layer_norm_eps": getattr(part(block, "norm1"), "eps", None),
        "act": {"QuickGELU": "quick_gelu", "GELUTanh": "gelu_tanh"}.get(kind(part(mlp, "act")), "gelu"),
        "post_norm": "Post" in kind(block), "pool_heads": pool_heads if pool_heads != getattr(attention, "num_heads", 0) else 0,
        # Eva's attention pooling has no setting for that.
        "pool_prefix": pool is not None and (kind(model) == "Eva" or model.pool_include_prefix),
        "rotations": "" if WITH_ROTATIONS.fullmatch(name) else rotations(model),
        "final_norm": any(map(is_norm, last_norms)),
        # The parts that other networks would be needed for.
        "kinds": {
            "block": kind(block), "attention": kind(attention), "mlp": kind(mlp),
            "activation": kind(part(mlp, "act")), "norm": kind(part(block, "norm1")),
            "norm_pre": kind(part(model, "norm_pre")), "q_norm": kind(part(attention, "q_norm")),
            "last_norm": "LayerNorm" if "LayerNorm" in map(kind, last_norms) else "",
            **({"mlp_norm": "LayerNorm"} if kind(part(mlp, "norm")) == "LayerNorm" else {}),
            **({"rel_pos": "table"} if part(attention, "relative_position_bias_table") is not None else {}),  # BEiT's
        },
        "lacks": lacking_parts(name, model), "tag": config.tag or "", "transform": transform_of(config),
    }
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
