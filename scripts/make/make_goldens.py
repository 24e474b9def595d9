"""Makes tests/data/goldens/*.safetensors: timm's answers for models and inputs C++ can rebuild; tests/data/positions/*.safetensors: the same
for models with position rules, `Eva` with rotary embeddings (RoPE-ViT, DINOv3) and `VisionTransformerRelPos`; and
assets/self_test.safetensors: timm's answers for the bundled pictures.

    python scripts/make/make_goldens.py [--only WORD]

Needs torch, timm, numpy, Pillow and safetensors; the versions used stand in every file's metadata. Runs on the CPU in two minutes. Models
and position-embedding resampling are timm's (https://github.com/huggingface/pytorch-image-models, Apache-2.0). Logits are computed in
float64 and stored as float32, so that they depend neither on the BLAS nor on the number of threads; how far timm's own float32 run is
from them is in the metadata and says what tolerance is fair. Format of the files, generator of weights and inputs: tests/data/goldens/README.md.
The metadata of positions list names and shapes, too, so that the test writes the checkpoint as timm would and opens it.
"""

import argparse
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from timm.data import create_transform
from timm.layers import resample_abs_pos_embed, resize_rel_pos_bias_table

from deterministic_weights import deterministic
from safetensors_writer import write_safetensors

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "assets" / "models" / "deit_tiny_patch16_224.softmax.safetensors"
PICTURES = ROOT / "assets" / "images"
GOLDENS = ROOT / "tests" / "data" / "goldens"
SELF_TEST = ROOT / "assets" / "self_test.safetensors"  # installed: `hydrascope doctor --self-test`
DEIT_TINY = "deit_tiny_patch16_224"
SEED = 42

Tensors = dict[str, np.ndarray]
Size = tuple[int, int]  # height, width


@dataclass(frozen=True)
class Case:
    """One golden file: a model, where its weights come from, and the size of its input."""

    name: str
    arch: str
    img_size: Size
    kwargs: dict[str, Any] = field(default_factory=dict)  # overrides of timm's factory
    weights_img_size: Size | None = None  # what pos_embed is made for; None = img_size
    bundled_weights: bool = False
    batch: int = 1
    trace: bool = True  # also store the first token after every block

    @property
    def trained_size(self) -> Size:
        return self.weights_img_size or self.img_size


def small(name: str, arch: str = DEIT_TINY, img_size: Size = (64, 64), **options: Any) -> Case:
    """A model of two thin blocks; `options` are fields of Case or keyword arguments of timm."""
    fields = {key: options.pop(key) for key in ("weights_img_size",) if key in options}
    kwargs = {"embed_dim": 64, "depth": 2, "num_heads": 2, "num_classes": 10, **options}
    return Case(f"small_{name}", arch, img_size, kwargs=kwargs, batch=2, **fields)


DISTILLED = "deit_tiny_distilled_patch16_224"
TRAINED_AT_224: dict[str, Any] = {"weights_img_size": (224, 224)}

CASES = [
    Case("deit_tiny_224", DEIT_TINY, (224, 224), bundled_weights=True, batch=2),
    Case("deit_tiny_384x640", DEIT_TINY, (384, 640), bundled_weights=True, **TRAINED_AT_224),
    Case("deit_tiny_1088x1920", DEIT_TINY, (1088, 1920), bundled_weights=True, **TRAINED_AT_224),
    Case("vit_base_224", "vit_base_patch16_224", (224, 224), trace=False),
    Case("vit_base_384x640", "vit_base_patch16_224", (384, 640), trace=False, **TRAINED_AT_224), small("plain"),
    small("distilled", DISTILLED), small("distilled_resized", DISTILLED, (48, 80), weights_img_size=(64, 64)),
    small("registers", reg_tokens=4), small("registers_resized", img_size=(80, 48), reg_tokens=4, weights_img_size=(64, 64)),
    small("no_embed_class", no_embed_class=True), small("no_embed_class_registers", no_embed_class=True, reg_tokens=4),
    small("no_embed_class_resized", img_size=(48, 80), no_embed_class=True, weights_img_size=(64, 64)),
    small("avg_fc_norm", global_pool="avg", fc_norm=True), small("avg_norm", global_pool="avg", fc_norm=False),
    small("avg_registers", global_pool="avg", fc_norm=True, reg_tokens=4),
    small("no_class_token", global_pool="avg", fc_norm=True, class_token=False), small("layer_scale", init_values=1e-5),
    small("no_qkv_bias", qkv_bias=False), small("mlp_ratio_3", mlp_ratio=3.0), small("one_head", num_heads=1),
    small("grey", in_chans=1), small("patch8", patch_size=8), small("patch14", img_size=(56, 56), patch_size=14),
    small("patch32", patch_size=32), small("pre_norm", pre_norm=True),
    small("pre_norm_quick_gelu", pre_norm=True, act_layer="quick_gelu"), small("tanh_gelu", act_layer="gelu_tanh"),
    small("no_final_norm", final_norm=False), small("attention_pool", global_pool="map", class_token=False, mlp_ratio=3.0),
    small("attention_pool_tanh", global_pool="map", act_layer="gelu_tanh", reg_tokens=2),
    small("scaled_attention", scale_attn_norm=True), small("rms_norm", norm_layer="rmsnorm", proj_bias=False, scale_mlp_norm=True),
    small("patch_norm", embed_norm_layer="layernorm", global_pool="avg", fc_norm=True), small("wide", img_size=(64, 96)),
    small("wide_to_tall", img_size=(96, 48), weights_img_size=(64, 96)),
]

SMALL_POSITIONS = {"embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 10}
POSITIONS_VERSION = "1.0.31"
ROPE = "vit_small_patch16_rope"
DINOV3 = "vit_small_patch16_dinov3"
DINOV3_PLUS = "vit_small_plus_patch16_dinov3"
RELPOS = "vit_relpos_small_patch16_224"
RELPOS_CLS = "vit_relpos_medium_patch16_cls_224"


def placed(name: str, arch: str, img_size: Size = (64, 64), trained: Size = (64, 64), **kwargs: Any) -> Case:
    """A model of two thin blocks with a rule of positions."""
    return Case(f"positions/{name}", arch, img_size, {**SMALL_POSITIONS, **kwargs}, trained, batch=2)


POSITIONS = [
    placed("rope", f"{ROPE}_224"), placed("rope_resized", f"{ROPE}_224", (96, 160)), placed("rope_ape", f"{ROPE}_ape_224"),
    placed("rope_ape_resized", f"{ROPE}_ape_224", (96, 160)), placed("rope_mixed", f"{ROPE}_mixed_224"),
    placed("rope_mixed_resized", f"{ROPE}_mixed_224", (160, 96)), placed("rope_mixed_ape", f"{ROPE}_mixed_ape_224"),
    placed("dinov3", DINOV3), placed("dinov3_resized", DINOV3, (96, 160)), placed("dinov3_qkvb", f"{DINOV3}_qkvb"),
    placed("dinov3_plus", DINOV3_PLUS), placed("dinov3_plus_resized", DINOV3_PLUS, (96, 160)),
    placed("dinov3_plus_qkvb", f"{DINOV3_PLUS}_qkvb"), placed("eva02", "eva02_tiny_patch14_224", (56, 56), trained=(56, 56)),
    placed("eva02_resized", "eva02_tiny_patch14_224", (84, 140), trained=(56, 56)),
    placed("eva02_base", "eva02_base_patch14_224", (56, 56), trained=(56, 56)), placed("beit", "beit_base_patch16_224"),
    placed("beit_resized", "beit_base_patch16_224", (96, 160)), placed("relpos_mlp", RELPOS),
    placed("relpos_mlp_resized", RELPOS, (96, 160)), placed("relpos_mlp_cls", RELPOS_CLS, rel_pos_dim=20),
    placed("relpos_mlp_shared", "vit_srelpos_small_patch16_224", rel_pos_dim=20),
    placed("relpos_bias", RELPOS, rel_pos_type="bias"), placed("relpos_bias_resized", RELPOS, (48, 64), rel_pos_type="bias"),
    placed("relpos_bias_cls", RELPOS_CLS, rel_pos_type="bias"),
]


def weights_of(case: Case) -> dict[str, torch.Tensor]:
    """At the size they are made for, by timm's names, float32."""
    if case.bundled_weights:
        return {name: tensor.float() for name, tensor in load_file(BUNDLED).items()}
    template = timm.create_model(case.arch, img_size=case.trained_size, **case.kwargs)
    return {name: torch.from_numpy(deterministic(name, tensor.shape, SEED)) for name, tensor in template.state_dict().items()}


def build(case: Case) -> torch.nn.Module:
    """The model at `case.img_size`, its positions resampled as timm does."""
    model = timm.create_model(case.arch, img_size=case.img_size, **case.kwargs)
    weights = weights_of(case)
    if "pos_embed" in weights:
        weights["pos_embed"] = resample_abs_pos_embed(
            weights["pos_embed"], new_size=model.patch_embed.grid_size,
            old_size=tuple(edge // size for edge, size in zip(case.trained_size, model.patch_embed.patch_size)),
            num_prefix_tokens=0 if model.no_embed_class else model.num_prefix_tokens,
        )
    for name, own in model.state_dict().items():
        if name.endswith("relative_position_bias_table"):
            weights[name] = resize_rel_pos_bias_table(weights[name], model.patch_embed.grid_size, own.shape)
    model.load_state_dict(weights, strict=True)
    return model.eval()


def first_token_by_block(model: torch.nn.Module, images: torch.Tensor) -> np.ndarray:
    """(depth + 1, batch, embed_dim): token 0 as it enters block 0, then after every block."""
    rows: list[torch.Tensor] = []
    hooks = [model.blocks[0].register_forward_pre_hook(lambda _, args: rows.append(args[0][:, 0]))]
    for block in model.blocks:
        hooks.append(block.register_forward_hook(lambda _, args, out: rows.append(out[:, 0])))
    model(images)
    for hook in hooks:
        hook.remove()
    return torch.stack(rows).float().numpy()


def float32_and_float64(model: torch.nn.Module, images: torch.Tensor) -> tuple[np.ndarray, float]:
    """Logits of float64, rounded, and how far float32's own are away. The model becomes double."""
    single = model(images)
    exact = model.double()(images.double())
    return exact.float().numpy(), float((single.double() - exact).abs().max())


def versions() -> dict[str, str]:
    return {"timm": timm.__version__, "torch": torch.__version__.partition("+")[0]}


def make_case(case: Case) -> tuple[Tensors, dict[str, str]]:
    """The tensors and the metadata of one golden file."""
    shape = (case.batch, case.kwargs.get("in_chans", 3), *case.img_size)
    images = torch.from_numpy(deterministic("input", shape, SEED))
    model = build(case)
    logits, float32_error = float32_and_float64(model, images)
    tensors = {"logits": logits}
    if case.trace:
        tensors["first_token"] = first_token_by_block(model, images.double())
    if case.arch == DISTILLED:
        model.set_distilled_training(True)
        both = model.train()(images.double())  # timm's tiny DeiT has no dropout: same as in evaluation
        tensors["logits_cls"], tensors["logits_dist"] = (x.float().numpy() for x in both)
    return tensors, {
        **versions(), "arch": case.arch, "kwargs": json.dumps(case.kwargs, sort_keys=True), "input_shape": json.dumps(shape),
        "weights": BUNDLED.relative_to(ROOT).as_posix() if case.bundled_weights else "deterministic",
        "weights_img_size": json.dumps(case.trained_size), "seed": str(SEED), "float32_error": f"{float32_error:.3g}",
    }


def make_positions(case: Case) -> tuple[Tensors, dict[str, str]]:
    if timm.__version__ != POSITIONS_VERSION:
        raise SystemExit(f"expected timm {POSITIONS_VERSION}, found {timm.__version__}")
    torch.set_num_threads(1)
    shape = (case.batch, 3, *case.img_size)
    logits, float32_error = float32_and_float64(build(case), torch.from_numpy(deterministic("input", shape, SEED)))
    return {"logits": logits}, {
        **versions(), "arch": case.arch, "model_args": json.dumps({**SMALL_POSITIONS, "img_size": list(case.trained_size)}),
        "input_shape": json.dumps(shape), "tensors": json.dumps({name: list(value.shape) for name, value in weights_of(case).items()}),
        "seed": str(SEED), "float32_error": f"{float32_error:.3g}",
    }


def make_self_test() -> tuple[Tensors, dict[str, str]]:
    """The bundled model on the bundled pictures: Pillow decodes and resizes, timm does the rest.

    Files are named as in assets/, which is where an installation has them.
    """
    transform = create_transform((3, 224, 224), interpolation="bicubic", crop_pct=0.875,
                                 mean=timm.data.IMAGENET_DEFAULT_MEAN, std=timm.data.IMAGENET_DEFAULT_STD)
    files = sorted(PICTURES.glob("*.jpg"))
    images = torch.stack([transform(Image.open(file).convert("RGB")) for file in files])
    model = build(Case("self_test", DEIT_TINY, (224, 224), bundled_weights=True))
    logits, float32_error = float32_and_float64(model, images)
    means = torch.nn.functional.avg_pool2d(images.double(), 16).float().numpy()
    return {"logits": logits, "patch_means": means}, {
        **versions(), "pillow": PIL.__version__, "arch": DEIT_TINY, "model": BUNDLED.stem,
        "files": json.dumps([file.name for file in files]), "float32_error": f"{float32_error:.3g}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name holds this word")
    arguments = parser.parse_args()
    makers = {case.name: partial(make_case, case) for case in CASES}
    makers |= {"self_test": make_self_test, **{case.name: partial(make_positions, case) for case in POSITIONS}}
    for name, make in makers.items():
        if arguments.only not in name:
            continue
        with torch.no_grad():
            tensors, metadata = make()
        path = SELF_TEST if name == "self_test" else (GOLDENS.parent if "/" in name else GOLDENS) / f"{name}.safetensors"
        write_safetensors(path, tensors, metadata)
        print(f"{name:28} {path.stat().st_size:>7} bytes  logits std {float(tensors['logits'].std()):7.3f}  "
              f"float32 error {metadata['float32_error']}", flush=True)


if __name__ == "__main__":
    main()
