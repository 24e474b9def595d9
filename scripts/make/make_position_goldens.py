"""Makes tests/data/positions/*.safetensors: timm's answers for models with position rules.

    python scripts/make/make_position_goldens.py        # torch, timm 1.0.31; a minute on the CPU

The models are timm's `Eva` with rotary embeddings (RoPE-ViT, DINOv3) and `VisionTransformerRelPos`, two thin blocks each. Weights and
inputs are those of deterministic_weights.py, by timm's own names; a golden's metadata list names and shapes, so that the test writes
the checkpoint as timm would and opens it. Logits are computed in float64 and stored as float32.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import timm
import torch
from timm.layers import resize_rel_pos_bias_table

from deterministic_weights import deterministic
from make_goldens import deterministic_state, float32_and_float64, resample_positions, versions
from safetensors_writer import write_safetensors

GOLDENS = Path(__file__).resolve().parents[2] / "tests" / "data" / "positions"
VERSION = "1.0.31"
SEED = 42
TRAINED = (64, 64)
SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 10}
ROPE = "vit_small_patch16_rope"
DINOV3 = "vit_small_patch16_dinov3"
DINOV3_PLUS = "vit_small_plus_patch16_dinov3"
RELPOS = "vit_relpos_small_patch16_224"
RELPOS_CLS = "vit_relpos_medium_patch16_cls_224"
BIAS = {"rel_pos_type": "bias"}


@dataclass(frozen=True)
class Case:
    """A model and the size of its input; `kwargs` override timm's factory and SMALL."""

    name: str
    arch: str
    img_size: tuple[int, int] = TRAINED
    kwargs: dict[str, Any] = field(default_factory=dict)
    trained: tuple[int, int] = TRAINED


CASES = [
    Case("rope", f"{ROPE}_224"), Case("rope_resized", f"{ROPE}_224", (96, 160)), Case("rope_ape", f"{ROPE}_ape_224"),
    Case("rope_ape_resized", f"{ROPE}_ape_224", (96, 160)), Case("rope_mixed", f"{ROPE}_mixed_224"),
    Case("rope_mixed_resized", f"{ROPE}_mixed_224", (160, 96)), Case("rope_mixed_ape", f"{ROPE}_mixed_ape_224"),
    Case("dinov3", DINOV3), Case("dinov3_resized", DINOV3, (96, 160)), Case("dinov3_qkvb", f"{DINOV3}_qkvb"),
    Case("dinov3_plus", DINOV3_PLUS), Case("dinov3_plus_resized", DINOV3_PLUS, (96, 160)),
    Case("dinov3_plus_qkvb", f"{DINOV3_PLUS}_qkvb"), Case("eva02", "eva02_tiny_patch14_224", (56, 56), trained=(56, 56)),
    Case("eva02_resized", "eva02_tiny_patch14_224", (84, 140), trained=(56, 56)),
    Case("eva02_base", "eva02_base_patch14_224", (56, 56), trained=(56, 56)), Case("beit", "beit_base_patch16_224"),
    Case("beit_resized", "beit_base_patch16_224", (96, 160)), Case("relpos_mlp", RELPOS),
    Case("relpos_mlp_resized", RELPOS, (96, 160)), Case("relpos_mlp_cls", RELPOS_CLS, kwargs={"rel_pos_dim": 20}),
    Case("relpos_mlp_shared", "vit_srelpos_small_patch16_224", kwargs={"rel_pos_dim": 20}),
    Case("relpos_bias", RELPOS, kwargs=BIAS), Case("relpos_bias_resized", RELPOS, (48, 64), BIAS),
    Case("relpos_bias_cls", RELPOS_CLS, kwargs=BIAS),
]


def build(case: Case, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    model = timm.create_model(case.arch, img_size=case.img_size, **SMALL, **case.kwargs)
    weights = dict(weights)
    if "pos_embed" in weights:
        resample_positions(model, weights, case.trained)
    for name, own in model.state_dict().items():
        if name.endswith("relative_position_bias_table"):
            weights[name] = resize_rel_pos_bias_table(weights[name], model.patch_embed.grid_size, own.shape)
    model.load_state_dict(weights, strict=True)
    return model.eval()


def main() -> None:
    if timm.__version__ != VERSION:
        raise SystemExit(f"expected timm {VERSION}, found {timm.__version__}")
    torch.set_num_threads(1)
    for case in CASES:
        # At the size the checkpoint is made for, by timm's names.
        weights = deterministic_state(timm.create_model(case.arch, img_size=case.trained, **SMALL, **case.kwargs), SEED)
        shape = (2, 3, *case.img_size)
        with torch.no_grad():
            logits, error = float32_and_float64(build(case, weights), torch.from_numpy(deterministic("input", shape, SEED)))
        metadata = {
            **versions(), "arch": case.arch, "model_args": json.dumps({**SMALL, "img_size": list(case.trained)}),
            "input_shape": json.dumps(shape), "tensors": json.dumps({name: list(value.shape) for name, value in weights.items()}),
            "seed": str(SEED), "float32_error": f"{error:.3g}",
        }
        write_safetensors(GOLDENS / f"{case.name}.safetensors", {"logits": logits}, metadata)
        print(f"{case.name:20} logits std {float(logits.std()):7.3f}  float32 error {error:.3g}")


if __name__ == "__main__":
    main()
