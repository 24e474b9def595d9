"""Makes tests/data/layouts/*.safetensors: answers of models that keep their weights by other names.

    python -m venv venv && venv/bin/pip install torch==2.11.0 torchvision timm==1.0.31 transformers==4.57.6
    venv/bin/python scripts/make/make_layout_goldens.py
    venv/bin/pip install transformers==5.24.0
    venv/bin/python scripts/make/make_layout_goldens.py

transformers 4.57 gives all cases, transformers 5 those whose names differ. Models are two blocks of
32 features. deterministic_weights.py makes weights and inputs, by the file's own names; a
golden's metadata list names and shapes, so that the test writes the checkpoint as its program would.
The answer is computed in float64: logits, or the features of a model without a classifier. Runs on
the CPU in a minute.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers
from safetensors import safe_open

from deterministic_weights import deterministic
from safetensors_writer import write_safetensors

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "data" / "layouts"
SEED = 7
SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
PICTURES = {"image_size": 32, "patch_size": 8}
VIT = {**SIZE, **PICTURES, "intermediate_size": 64}
TEXT = {**SIZE, "intermediate_size": 64, "vocab_size": 8, "max_position_embeddings": 4}
BEIT = {**VIT, "use_relative_position_bias": True, "num_labels": 5}
SHARED_BEIT = {
    **VIT,
    "use_shared_relative_position_bias": True,
    "use_absolute_position_embeddings": True,
    "layer_scale_init_value": 0,
    "num_labels": 5,
}
REGISTERS = {"num_register_tokens": 4}
# transformers 5 writes other names than 4 for these.
RENAMED = {"clip_vision", "siglip_vision", "vit_msn", "timm_wrapper"}

Answer = Callable[[Any, torch.Tensor], torch.Tensor]


def logits(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(images).logits


def pooled(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(images).pooler_output


def class_token(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(images).last_hidden_state[:, 0]


def both_tokens(model: Any, images: torch.Tensor) -> torch.Tensor:
    """timm's feature of a distilled model."""
    return model(images).last_hidden_state[:, :2].mean(dim=1)


def mean_token(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(images).last_hidden_state.mean(dim=1)


def image_embeds(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(images).image_embeds


def image_features(model: Any, images: torch.Tensor) -> torch.Tensor:
    features = model.get_image_features(pixel_values=images)
    return features if isinstance(features, torch.Tensor) else features.pooler_output


def mae_features(model: Any, images: torch.Tensor) -> torch.Tensor:
    tower = getattr(model, "vit", model)
    # The patches stay in their order.
    noise = torch.arange(16, dtype=images.dtype).expand(len(images), -1)
    return tower(images, noise=noise).last_hidden_state[:, 0]


@dataclass(frozen=True)
class Case:
    """A class of transformers, its configuration and its answer; `input_size` where it is another."""

    name: str
    model: str
    config: dict[str, Any]
    answer: Answer
    input_size: tuple[int, int] = (32, 32)
    keywords: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("vit", "ViTForImageClassification", {**VIT, "num_labels": 5}, logits),
    Case("vit_quick_gelu", "ViTForImageClassification", {**VIT, "hidden_act": "quick_gelu", "num_labels": 5}, logits),
    Case("vit_model", "ViTModel", VIT, class_token),
    Case("vit_masked", "ViTForMaskedImageModeling", {**VIT, "encoder_stride": 8}, lambda model, images: class_token(model.vit, images)),
    Case("deit", "DeiTForImageClassification", {**VIT, "num_labels": 5}, logits),
    Case("deit_teacher", "DeiTForImageClassificationWithTeacher", {**VIT, "num_labels": 5}, logits),
    Case("deit_model", "DeiTModel", VIT, both_tokens),
    Case("dinov2_classifier", "Dinov2ForImageClassification", {**SIZE, **PICTURES}, logits),
    Case("dinov2", "Dinov2Model", {**SIZE, **PICTURES}, pooled),
    Case("dinov2_resized", "Dinov2Model", {**SIZE, **PICTURES}, pooled, (48, 40)),
    Case("dinov2_swiglu", "Dinov2Model", {**SIZE, **PICTURES, "use_swiglu_ffn": True}, pooled),
    Case("dinov2_registers", "Dinov2WithRegistersModel", {**SIZE, **PICTURES, **REGISTERS}, pooled),
    Case("dinov2_registers_classifier", "Dinov2WithRegistersForImageClassification", {**SIZE, **PICTURES, **REGISTERS}, logits),
    # Fewer patches than the table: this class alone resamples it with antialias.
    Case("dinov2_registers_resized", "Dinov2WithRegistersModel", {**SIZE, **PICTURES, **REGISTERS}, pooled, (16, 24)),
    Case("dinov3", "DINOv3ViTModel", {**VIT, **REGISTERS}, pooled),
    Case("dinov3_resized", "DINOv3ViTModel", {**VIT, **REGISTERS}, pooled, (48, 40)),
    Case("dinov3_gated", "DINOv3ViTModel", {**VIT, **REGISTERS, "use_gated_mlp": True, "hidden_act": "silu", "rope_theta": 50.0}, pooled),
    Case("clip", "CLIPModel", {"vision_config": VIT, "text_config": TEXT, "projection_dim": 16}, image_features),
    Case("clip_vision", "CLIPVisionModel", {**VIT, "hidden_act": "gelu"}, pooled),
    Case("clip_projection", "CLIPVisionModelWithProjection", {**VIT, "projection_dim": 16}, image_embeds),
    Case("clip_classifier", "CLIPForImageClassification", {"vision_config": VIT, "text_config": TEXT, "num_labels": 5}, logits),
    Case("siglip", "SiglipModel", {"vision_config": VIT, "text_config": {**TEXT, "projection_size": 32}}, image_features),
    Case("siglip_vision", "SiglipVisionModel", VIT, pooled),
    Case("siglip_classifier", "SiglipForImageClassification", {"vision_config": VIT, "text_config": TEXT, "num_labels": 5}, logits),
    Case("beit", "BeitForImageClassification", BEIT, logits),
    Case("beit_resized", "BeitForImageClassification", BEIT, logits, (48, 40)),
    Case("beit_class_token", "BeitForImageClassification", {**BEIT, "use_mean_pooling": False}, logits),
    Case("beit_model", "BeitModel", {**BEIT, "use_mean_pooling": True}, pooled),
    Case("beit_shared", "BeitForImageClassification", SHARED_BEIT, logits),
    Case("beit_shared_resized", "BeitForImageClassification", SHARED_BEIT, logits, (24, 32)),
    Case("data2vec", "Data2VecVisionForImageClassification", BEIT, logits),
    Case("vit_msn", "ViTMSNForImageClassification", {**VIT, "num_labels": 5}, logits),
    Case("vit_mae", "ViTMAEModel", {**VIT, "mask_ratio": 0.0}, mae_features),
    Case(
        "vit_mae_pretraining",
        "ViTMAEForPreTraining",
        {
            **VIT,
            "mask_ratio": 0.0,
            "decoder_num_hidden_layers": 1,
            "decoder_hidden_size": 16,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 8,
        },
        mae_features,
    ),
    Case("ijepa", "IJepaModel", VIT, mean_token),
    Case("ijepa_classifier", "IJepaForImageClassification", {**VIT, "num_labels": 5}, logits),
]


def filled(tensors: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(deterministic(name, tuple(shape), SEED)) for name, shape in tensors.items()}


def store(name: str, source: str, tensors: dict[str, Any], config: str, kind: str, images: torch.Tensor, answer: torch.Tensor) -> None:
    metadata = {
        "source": source,
        "config": config,
        "kind": kind,
        "seed": str(SEED),
        "input_shape": json.dumps(list(images.shape)),
        "tensors": json.dumps({key: list(shape) for key, shape in tensors.items()}),
    }
    write_safetensors(GOLDENS / f"{name}.safetensors", {"answer": answer.float().numpy()}, metadata)
    print(f"{name}: {source}, spread {float(answer.std()):.3g}")


def pictures(size: tuple[int, int]) -> torch.Tensor:
    return torch.from_numpy(deterministic("input", (2, 3, *size), SEED)).double()


def make_transformers(case: Case, version: str) -> None:
    model_class = getattr(transformers, case.model)
    config = model_class.config_class(**case.config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        model_class(config).save_pretrained(path)
        with safe_open(path / "model.safetensors", "pt") as file:
            tensors = {name: file.get_slice(name).get_shape() for name in file.keys()}
        from safetensors.torch import save_file

        save_file(filled(tensors), path / "model.safetensors", metadata={"format": "pt"})
        text = (path / "config.json").read_text()
        # transformers' own loader puts the names where they belong.
        model, report = model_class.from_pretrained(path, output_loading_info=True)
        if report["missing_keys"] or report["unexpected_keys"]:
            raise SystemExit(f"{case.name}: {report}")
        model = model.double().eval()
    images = pictures(case.input_size)
    with torch.no_grad():
        answer = case.answer(model, images)
    kind = "logits" if case.answer in (logits, image_embeds) or case.name == "clip" else "features"
    store(f"transformers_{version}_{case.name}", f"{case.model} of transformers", tensors, text, kind, images, answer)


def make_timm_wrapper(version: str) -> None:
    config = transformers.TimmWrapperConfig(
        architecture="vit_tiny_patch16_224", model_args={"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}, num_labels=5
    )
    model = transformers.TimmWrapperForImageClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        model.save_pretrained(path)
        with safe_open(path / "model.safetensors", "pt") as file:
            tensors = {name: file.get_slice(name).get_shape() for name in file.keys()}
        text = (path / "config.json").read_text()
    weights = {name.removeprefix("timm_model."): value for name, value in filled(tensors).items()}
    model.timm_model.load_state_dict(weights, strict=True)
    model = model.double().eval()
    images = pictures((32, 32))
    with torch.no_grad():
        answer = model(images).logits
    store(f"transformers_{version}_timm_wrapper", "TimmWrapperForImageClassification", tensors, text, "logits", images, answer)


def rename(state: dict[str, torch.Tensor], *rules: tuple[str, str]) -> dict[str, torch.Tensor]:
    renamed = {}
    for name, value in state.items():
        for ours, theirs in rules:
            name = name.replace(ours, theirs)
        renamed[name] = value
    return renamed


def make_originals() -> None:
    """Files of the authors' programs; timm, which reads them, answers."""
    size = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
    images = pictures((32, 32))

    def answer_of(model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> torch.Tensor:
        model.load_state_dict(weights, strict=True)
        with torch.no_grad():
            return model.double().eval()(images)

    def timm_vit(**keywords: Any) -> torch.nn.Module:
        return timm.models.vision_transformer.VisionTransformer(**size, **keywords)

    # DINO's student and teacher are saved with their heads.
    model = timm_vit(num_classes=0)
    shapes = {f"module.backbone.{name}": value.shape for name, value in model.state_dict().items()}
    heads = {
        "module.head.mlp.0.weight": (16, 32),
        "module.head.mlp.0.bias": (16,),
        "module.head.last_layer.weight_v": (8, 16),
        "module.head.last_layer.weight_g": (8, 1),
    }
    weights = filled({**shapes, **heads})
    answer = answer_of(model, {name.removeprefix("module.backbone."): value for name, value in weights.items() if name in shapes})
    store("dino", "facebookresearch/dino", {**shapes, **heads}, "", "features", images, answer)

    # DINOv2: registers have no place, blocks come in chunks, MLPs are gated.
    for name, registers in (("dinov2_chunks", 0), ("dinov2_chunks_registers", 4)):
        model = timm_vit(
            num_classes=0,
            init_values=1.0,
            reg_tokens=registers,
            no_embed_class=registers > 0,
            mlp_layer=timm.layers.SwiGLUPacked,
            mlp_ratio=4,
            act_layer=torch.nn.SiLU,
        )
        own = model.state_dict()
        shapes = {}
        for key, value in own.items():
            shape = tuple(value.shape)
            for block in range(2):
                key = key.replace(f"blocks.{block}.", f"blocks.{block}.{block}.", 1) if key.startswith(f"blocks.{block}.") else key
            key = key.replace("mlp.fc1", "mlp.w12").replace("mlp.fc2", "mlp.w3")
            if key == "pos_embed":
                shape = (1, 17, 32)
            shapes[key.replace("reg_token", "register_tokens")] = shape
        shapes["mask_token"] = (1, 32)
        weights = filled(shapes)
        ours = {}
        for key, value in weights.items():
            for block in range(2):
                key = key.replace(f"blocks.{block}.{block}.", f"blocks.{block}.")
            key = key.replace("mlp.w12", "mlp.fc1").replace("mlp.w3", "mlp.fc2")
            ours[key.replace("register_tokens", "reg_token")] = value
        del ours["mask_token"]
        if registers:
            # As timm's checkpoint filter does.
            ours["cls_token"] = ours["cls_token"] + ours["pos_embed"][:, :1]
            ours["pos_embed"] = ours["pos_embed"][:, 1:]
        store(name, "facebookresearch/dinov2", shapes, "", "features", images, answer_of(model, ours))

    # DINOv3: biases of keys are masked.
    model = timm.create_model(
        "vit_small_patch16_dinov3_qkvb", num_classes=0, img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2, global_pool="token"
    )
    shapes = {}
    for key, value in model.state_dict().items():
        key = key.replace("gamma_", "ls").replace("reg_token", "storage_tokens")
        if key.endswith((".ls1", ".ls2")):
            key += ".gamma"
        if key.endswith(("q_bias", "v_bias")):
            continue
        if not key.startswith("rope"):
            shapes[key] = tuple(value.shape)
    for block in range(2):
        shapes[f"blocks.{block}.attn.qkv.bias"] = (96,)
        shapes[f"blocks.{block}.attn.qkv.bias_mask"] = (96,)
    shapes |= {"rope_embed.periods": (4,), "mask_token": (1, 32)}
    weights = filled(shapes)
    ours = {}
    for key, value in weights.items():
        if key in ("mask_token", "rope_embed.periods") or key.endswith("bias_mask"):
            continue
        key = key.replace("storage_tokens", "reg_token")
        key = key.replace("ls1.gamma", "gamma_1").replace("ls2.gamma", "gamma_2")
        if key.endswith("attn.qkv.bias") and key not in model.state_dict():
            ours[key.replace("qkv.bias", "q_bias")] = value[:32]
            ours[key.replace("qkv.bias", "v_bias")] = value[64:]
        else:
            if key.endswith("attn.qkv.bias"):
                value = value.clone()
                value[32:64] = 0
            ours[key] = value
    missing = {key: value for key, value in model.state_dict().items() if key not in ours}
    if any(not key.endswith("k_bias") and not key.startswith("rope") for key in missing):
        raise SystemExit(f"dinov3_original: {sorted(missing)}")
    store("dinov3_original", "facebookresearch/dinov3", shapes, "", "features", images, answer_of(model, {**ours, **missing}))

    # AIMv2, as timm keeps it: RMSNorm, a norm of the patches, no biases.
    arguments = {**size, "num_classes": 5}
    model = timm.create_model("aimv2_large_patch14_224", **arguments)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    config = {"architecture": "aimv2_large_patch14_224", "num_classes": 5, "model_args": arguments}
    store("timm_aimv2", "timm.models.vision_transformer", shapes, json.dumps(config), "logits", images, answer_of(model, filled(shapes)))

    # torchvision.
    model = torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=5)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    store("torchvision", "torchvision.models.VisionTransformer", shapes, "", "logits", images, answer_of(model, filled(shapes)))

    # CLIP with its text tower, as openai/CLIP and open_clip save it; the configuration is beside it.
    vision = transformers.CLIPVisionConfig(**VIT, projection_dim=16)
    twin = transformers.CLIPVisionModelWithProjection(vision)
    shapes = {"visual.class_embedding": (32,), "visual.positional_embedding": (17, 32), "visual.proj": (32, 16), "visual.conv1.weight": (32, 3, 8, 8)}
    for norm in ("visual.ln_pre", "visual.ln_post"):
        shapes |= {f"{norm}.weight": (32,), f"{norm}.bias": (32,)}
    for tower, width in (("visual.", 32), ("", 16)):
        for block in range(2):
            base = f"{tower}transformer.resblocks.{block}."
            for norm in ("ln_1", "ln_2"):
                shapes |= {f"{base}{norm}.weight": (width,), f"{base}{norm}.bias": (width,)}
            shapes |= {
                f"{base}attn.in_proj_weight": (3 * width, width),
                f"{base}attn.in_proj_bias": (3 * width,),
                f"{base}attn.out_proj.weight": (width, width),
                f"{base}attn.out_proj.bias": (width,),
                f"{base}mlp.c_fc.weight": (2 * width, width),
                f"{base}mlp.c_fc.bias": (2 * width,),
                f"{base}mlp.c_proj.weight": (width, 2 * width),
                f"{base}mlp.c_proj.bias": (width,),
            }
    shapes |= {
        "positional_embedding": (4, 16),
        "token_embedding.weight": (8, 16),
        "logit_scale": (),
        "ln_final.weight": (16,),
        "ln_final.bias": (16,),
        "text_projection": (16, 16),
    }
    weights = filled(shapes)
    tower = {name.removeprefix("visual."): value for name, value in weights.items() if name.startswith("visual.")}
    state = {
        "vision_model.embeddings.class_embedding": tower["class_embedding"],
        "vision_model.embeddings.position_embedding.weight": tower["positional_embedding"],
        "vision_model.embeddings.patch_embedding.weight": tower["conv1.weight"],
        "visual_projection.weight": tower["proj"].T.contiguous(),
    }
    for ours, theirs in (("pre_layrnorm", "ln_pre"), ("post_layernorm", "ln_post")):
        for part in ("weight", "bias"):
            state[f"vision_model.{ours}.{part}"] = tower[f"{theirs}.{part}"]
    for block in range(2):
        ours, theirs = f"vision_model.encoder.layers.{block}.", f"transformer.resblocks.{block}."
        for part in ("weight", "bias"):
            for i, name in enumerate(("q", "k", "v")):
                rows = tower[f"{theirs}attn.in_proj_{part}"].chunk(3)[i]
                state[f"{ours}self_attn.{name}_proj.{part}"] = rows
            for mine, other in (
                ("layer_norm1", "ln_1"),
                ("layer_norm2", "ln_2"),
                ("self_attn.out_proj", "attn.out_proj"),
                ("mlp.fc1", "mlp.c_fc"),
                ("mlp.fc2", "mlp.c_proj"),
            ):
                state[f"{ours}{mine}.{part}"] = tower[f"{theirs}{other}.{part}"]
    twin.load_state_dict(state, strict=True)
    with torch.no_grad():
        answer = twin.double().eval()(images).image_embeds
    config = json.dumps({"model_type": "clip", "vision_config": {**VIT, "hidden_act": "quick_gelu"}})
    store("open_clip", "mlfoundations/open_clip", shapes, config, "logits", images, answer)


def main() -> None:
    torch.set_num_threads(1)
    version = transformers.__version__.partition(".")[0]
    print(f"torch {torch.__version__}, timm {timm.__version__}, transformers {transformers.__version__}")
    for case in CASES:
        if version == "4" or case.name in RENAMED:
            make_transformers(case, version)
    make_timm_wrapper(version)
    if version == "4":
        make_originals()


if __name__ == "__main__":
    main()
