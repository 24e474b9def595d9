"""Makes tests/data/positions/*.safetensors: timm's answers for models with position rules.

    python -m venv venv && venv/bin/pip install torch timm==1.0.31
    venv/bin/python scripts/make/make_position_goldens.py

The models are timm's `Eva` with rotary embeddings (RoPE-ViT, DINOv3) and `VisionTransformerRelPos`,
two thin blocks each. Weights and inputs are those of deterministic_weights.py, by timm's own names; a
golden's metadata list names and shapes, so that the test writes the checkpoint as timm would and opens
it. Logits are computed in float64 and stored as float32. Runs on the CPU in a minute.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import timm
import torch
from timm.layers import resample_abs_pos_embed, resize_rel_pos_bias_table

from deterministic_weights import deterministic
from safetensors_writer import write_safetensors

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "data" / "positions"
VERSION = "1.0.31"
SEED = 42
TRAINED = (64, 64)
SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 10}
ROPE = "vit_small_patch16_rope"
DINOV3 = "vit_small_patch16_dinov3"
DINOV3_PLUS = "vit_small_plus_patch16_dinov3"
EVA02 = "eva02_tiny_patch14"
EVA02_BASE = "eva02_base_patch14"


@dataclass(frozen=True)
class Case:
    """A model and the size of its input; `kwargs` override timm's factory and SMALL."""

    name: str
    arch: str
    img_size: tuple[int, int] = TRAINED
    kwargs: dict[str, Any] = field(default_factory=dict)
    trained: tuple[int, int] = TRAINED


CASES = [
    Case("rope", f"{ROPE}_224"),
    Case("rope_resized", f"{ROPE}_224", (96, 160)),
    Case("rope_ape", f"{ROPE}_ape_224"),
    Case("rope_ape_resized", f"{ROPE}_ape_224", (96, 160)),
    Case("rope_mixed", f"{ROPE}_mixed_224"),
    Case("rope_mixed_resized", f"{ROPE}_mixed_224", (160, 96)),
    Case("rope_mixed_ape", f"{ROPE}_mixed_ape_224"),
    Case("dinov3", DINOV3),
    Case("dinov3_resized", DINOV3, (96, 160)),
    Case("dinov3_qkvb", f"{DINOV3}_qkvb"),
    Case("dinov3_plus", DINOV3_PLUS),
    Case("dinov3_plus_resized", DINOV3_PLUS, (96, 160)),
    Case("dinov3_plus_qkvb", f"{DINOV3_PLUS}_qkvb"),
    Case("eva02", f"{EVA02}_224", (56, 56), trained=(56, 56)),
    Case("eva02_resized", f"{EVA02}_224", (84, 140), trained=(56, 56)),
    Case("eva02_base", f"{EVA02_BASE}_224", (56, 56), trained=(56, 56)),
    Case("beit", "beit_base_patch16_224"),
    Case("beit_resized", "beit_base_patch16_224", (96, 160)),
    Case("relpos_mlp", "vit_relpos_small_patch16_224"),
    Case("relpos_mlp_resized", "vit_relpos_small_patch16_224", (96, 160)),
    Case("relpos_mlp_cls", "vit_relpos_medium_patch16_cls_224", kwargs={"rel_pos_dim": 20}),
    Case("relpos_mlp_shared", "vit_srelpos_small_patch16_224", kwargs={"rel_pos_dim": 20}),
    Case("relpos_bias", "vit_relpos_small_patch16_224", kwargs={"rel_pos_type": "bias"}),
    Case(
        "relpos_bias_resized",
        "vit_relpos_small_patch16_224",
        (48, 64),
        kwargs={"rel_pos_type": "bias"},
    ),
    Case(
        "relpos_bias_cls", "vit_relpos_medium_patch16_cls_224", kwargs={"rel_pos_type": "bias"}
    ),
]


def weights_of(case: Case) -> dict[str, torch.Tensor]:
    """At the size the checkpoint is made for, by timm's names."""
    template = timm.create_model(case.arch, img_size=case.trained, **SMALL, **case.kwargs)
    return {
        name: torch.from_numpy(deterministic(name, tuple(tensor.shape), SEED))
        for name, tensor in template.state_dict().items()
    }


def build(case: Case, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    model = timm.create_model(case.arch, img_size=case.img_size, **SMALL, **case.kwargs)
    weights = dict(weights)
    if "pos_embed" in weights:
        patch = model.patch_embed.patch_size
        weights["pos_embed"] = resample_abs_pos_embed(
            weights["pos_embed"],
            new_size=model.patch_embed.grid_size,
            old_size=tuple(edge // size for edge, size in zip(case.trained, patch)),
            num_prefix_tokens=0 if model.no_embed_class else model.num_prefix_tokens,
        )
    for name, own in model.state_dict().items():
        if name.endswith("relative_position_bias_table"):
            weights[name] = resize_rel_pos_bias_table(
                weights[name], model.patch_embed.grid_size, own.shape
            )
    model.load_state_dict(weights, strict=True)
    return model.eval()


def main() -> None:
    if timm.__version__ != VERSION:
        raise SystemExit(f"expected timm {VERSION}, found {timm.__version__}")
    torch.set_num_threads(1)
    GOLDENS.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        weights = weights_of(case)
        shape = (2, 3, *case.img_size)
        images = torch.from_numpy(deterministic("input", shape, SEED))
        with torch.no_grad():
            model = build(case, weights)
            single = model(images)
            exact = model.double()(images.double())
        error = float((single.double() - exact).abs().max())
        metadata = {
            "timm": timm.__version__,
            "torch": torch.__version__.partition("+")[0],
            "arch": case.arch,
            "model_args": json.dumps({**SMALL, "img_size": list(case.trained)}),
            "input_shape": json.dumps(shape),
            "tensors": json.dumps({name: list(value.shape) for name, value in weights.items()}),
            "seed": str(SEED),
            "float32_error": f"{error:.3g}",
        }
        path = GOLDENS / f"{case.name}.safetensors"
        write_safetensors(path, {"logits": exact.float().numpy()}, metadata)
        print(f"{case.name:20} logits std {float(exact.std()):7.3f}  float32 error {error:.3g}")


if __name__ == "__main__":
    main()
