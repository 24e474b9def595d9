"""Makes tests/data/layouts/*.safetensors: answers of models that keep their weights by other names.

    python -m venv venv && venv/bin/pip install torch==2.11.0 torchvision timm==1.0.31 transformers==4.57.6
    venv/bin/python scripts/make/make_layout_goldens.py
    venv/bin/pip install transformers==5.24.0
    venv/bin/python scripts/make/make_layout_goldens.py

transformers 4.57 gives all cases, transformers 5 those whose names differ. Models are two blocks of 32 features. deterministic_weights.py
makes weights and inputs, by the file's own names; a golden's metadata list names and shapes, so that the test writes the checkpoint as its
program would. The answer is computed in float64: logits, or the features of a model without a classifier. Runs on the CPU in a minute.
"""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

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
SHARED_BEIT = {**VIT, "use_shared_relative_position_bias": True, "use_absolute_position_embeddings": True, "layer_scale_init_value": 0,
               "num_labels": 5}
DINOV2 = {**SIZE, **PICTURES}
REGISTERS = {"num_register_tokens": 4}
DECODER = {"decoder_num_hidden_layers": 1, "decoder_hidden_size": 16, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 8}
# transformers 5 writes other names than 4 for these.
RENAMED = {"clip_vision", "siglip_vision", "vit_msn", "timm_wrapper"}

Answer = Callable[[Any, torch.Tensor], torch.Tensor]


def of_output(read: Callable[[Any], torch.Tensor]) -> Answer:
    return lambda model, images: read(model(images))


logits = of_output(lambda output: output.logits)
pooled = of_output(lambda output: output.pooler_output)
class_token = of_output(lambda output: output.last_hidden_state[:, 0])
both_tokens = of_output(lambda output: output.last_hidden_state[:, :2].mean(dim=1))  # timm's feature of a distilled model
mean_token = of_output(lambda output: output.last_hidden_state.mean(dim=1))
image_embeds = of_output(lambda output: output.image_embeds)


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


CASES = [
    Case("vit", "ViTForImageClassification", {**VIT, "num_labels": 5}, logits),
    Case("vit_quick_gelu", "ViTForImageClassification", {**VIT, "hidden_act": "quick_gelu", "num_labels": 5}, logits),
    Case("vit_model", "ViTModel", VIT, class_token),
    Case("vit_masked", "ViTForMaskedImageModeling", {**VIT, "encoder_stride": 8}, lambda model, images: class_token(model.vit, images)),
    Case("deit", "DeiTForImageClassification", {**VIT, "num_labels": 5}, logits),
    Case("deit_teacher", "DeiTForImageClassificationWithTeacher", {**VIT, "num_labels": 5}, logits),
    Case("deit_model", "DeiTModel", VIT, both_tokens),
    Case("dinov2_classifier", "Dinov2ForImageClassification", DINOV2, logits),
    Case("dinov2", "Dinov2Model", DINOV2, pooled),
    Case("dinov2_resized", "Dinov2Model", DINOV2, pooled, (48, 40)),
    Case("dinov2_swiglu", "Dinov2Model", {**DINOV2, "use_swiglu_ffn": True}, pooled),
    Case("dinov2_registers", "Dinov2WithRegistersModel", {**DINOV2, **REGISTERS}, pooled),
    Case("dinov2_registers_classifier", "Dinov2WithRegistersForImageClassification", {**DINOV2, **REGISTERS}, logits),
    # Fewer patches than the table: this class alone resamples it with antialias.
    Case("dinov2_registers_resized", "Dinov2WithRegistersModel", {**DINOV2, **REGISTERS}, pooled, (16, 24)),
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
    Case("vit_mae_pretraining", "ViTMAEForPreTraining", {**VIT, "mask_ratio": 0.0, **DECODER}, mae_features),
    Case("ijepa", "IJepaModel", VIT, mean_token),
    Case("ijepa_classifier", "IJepaForImageClassification", {**VIT, "num_labels": 5}, logits),
]


def filled(tensors: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(deterministic(name, tuple(shape), SEED)) for name, shape in tensors.items()}


def store(name: str, source: str, tensors: dict[str, Any], config: str, kind: str, images: torch.Tensor, answer: torch.Tensor) -> None:
    metadata = {
        "source": source, "config": config, "kind": kind, "seed": str(SEED), "input_shape": json.dumps(list(images.shape)),
        "tensors": json.dumps({key: list(shape) for key, shape in tensors.items()}),
    }
    write_safetensors(GOLDENS / f"{name}.safetensors", {"answer": answer.float().numpy()}, metadata)
    print(f"{name}: {source}, spread {float(answer.std()):.3g}")


def shapes_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def saved(model: Any, path: Path) -> tuple[dict[str, Any], str]:
    """The shapes and the configuration that save_pretrained writes."""
    model.save_pretrained(path)
    with safe_open(path / "model.safetensors", "pt") as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}, (path / "config.json").read_text()


def answer_of(model: torch.nn.Module, weights: dict[str, torch.Tensor], answer: Answer, images: torch.Tensor) -> torch.Tensor:
    """In float64."""
    model.load_state_dict(weights, strict=True)
    with torch.no_grad():
        return answer(model.double().eval(), images)


def pictures(size: tuple[int, int]) -> torch.Tensor:
    return torch.from_numpy(deterministic("input", (2, 3, *size), SEED)).double()


def make_transformers(case: Case, version: str) -> None:
    model_class = getattr(transformers, case.model)
    config = model_class.config_class(**case.config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        tensors, text = saved(model_class(config), path)
        save_file(filled(tensors), path / "model.safetensors", metadata={"format": "pt"})
        # transformers' own loader puts the names where they belong.
        model, report = model_class.from_pretrained(path, output_loading_info=True)
        if report["missing_keys"] or report["unexpected_keys"]:
            raise SystemExit(f"{case.name}: {report}")
    images = pictures(case.input_size)
    with torch.no_grad():
        answer = case.answer(model.double().eval(), images)
    kind = "logits" if case.answer in (logits, image_embeds) or case.name == "clip" else "features"
    store(f"transformers_{version}_{case.name}", f"{case.model} of transformers", tensors, text, kind, images, answer)


def make_timm_wrapper(version: str) -> None:
    arguments = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
    config = transformers.TimmWrapperConfig(architecture="vit_tiny_patch16_224", model_args=arguments, num_labels=5)
    model = transformers.TimmWrapperForImageClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        tensors, text = saved(model, Path(folder))
    images = pictures((32, 32))
    weights = {"timm_model." + name.removeprefix("timm_model."): value for name, value in filled(tensors).items()}
    answer = answer_of(model, weights, logits, images)
    store(f"transformers_{version}_timm_wrapper", "TimmWrapperForImageClassification", tensors, text, "logits", images, answer)


def make_originals() -> None:
    """Files of the authors' programs; timm, which reads them, answers."""
    size = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
    images = pictures((32, 32))

    def keep(name: str, source: str, shapes: dict[str, Any], model: torch.nn.Module, weights: dict[str, torch.Tensor],
             config: str = "", kind: str = "features", answer: Answer = lambda model, images: model(images)) -> None:
        store(name, source, shapes, config, kind, images, answer_of(model, weights, answer, images))

    def timm_vit(**keywords: Any) -> torch.nn.Module:
        return timm.models.vision_transformer.VisionTransformer(**size, **keywords)

    # DINO's student and teacher are saved with their heads.
    model = timm_vit(num_classes=0)
    shapes = {f"module.backbone.{name}": shape for name, shape in shapes_of(model).items()}
    heads = {"module.head.mlp.0.weight": (16, 32), "module.head.mlp.0.bias": (16,), "module.head.last_layer.weight_v": (8, 16),
             "module.head.last_layer.weight_g": (8, 1)}
    weights = {name.removeprefix("module.backbone."): value for name, value in filled(shapes).items()}
    keep("dino", "facebookresearch/dino", {**shapes, **heads}, model, weights)

    # DINOv2: registers have no place, blocks come in chunks, MLPs are gated.
    for name, registers in (("dinov2_chunks", 0), ("dinov2_chunks_registers", 4)):
        model = timm_vit(num_classes=0, init_values=1.0, reg_tokens=registers, no_embed_class=registers > 0,
                         mlp_layer=timm.layers.SwiGLUPacked, mlp_ratio=4, act_layer=torch.nn.SiLU)
        shapes = {}
        for key, shape in shapes_of(model).items():
            key = re.sub(r"^blocks\.(\d)\.", r"blocks.\1.\1.", key).replace("mlp.fc1", "mlp.w12").replace("mlp.fc2", "mlp.w3")
            shapes[key.replace("reg_token", "register_tokens")] = (1, 17, 32) if key == "pos_embed" else shape
        shapes["mask_token"] = (1, 32)
        weights = filled(shapes)
        ours = {}
        for key, value in weights.items():
            key = re.sub(r"^blocks\.(\d)\.\d\.", r"blocks.\1.", key).replace("mlp.w12", "mlp.fc1").replace("mlp.w3", "mlp.fc2")
            ours[key.replace("register_tokens", "reg_token")] = value
        del ours["mask_token"]
        if registers:
            # As timm's checkpoint filter does.
            ours["cls_token"] = ours["cls_token"] + ours["pos_embed"][:, :1]
            ours["pos_embed"] = ours["pos_embed"][:, 1:]
        keep(name, "facebookresearch/dinov2", shapes, model, ours)

    # DINOv3: biases of keys are masked.
    model = timm.create_model("vit_small_patch16_dinov3_qkvb", num_classes=0, global_pool="token", **size)
    shapes = {}
    for key, shape in shapes_of(model).items():
        key = key.replace("gamma_", "ls").replace("reg_token", "storage_tokens")
        if key.endswith((".ls1", ".ls2")):
            key += ".gamma"
        if not key.endswith(("q_bias", "v_bias")) and not key.startswith("rope"):
            shapes[key] = shape
    for block in range(2):
        shapes |= {f"blocks.{block}.attn.qkv.bias": (96,), f"blocks.{block}.attn.qkv.bias_mask": (96,)}
    shapes |= {"rope_embed.periods": (4,), "mask_token": (1, 32)}
    weights = filled(shapes)
    ours = {}
    for key, value in weights.items():
        if key in ("mask_token", "rope_embed.periods") or key.endswith("bias_mask"):
            continue
        key = key.replace("storage_tokens", "reg_token").replace("ls1.gamma", "gamma_1").replace("ls2.gamma", "gamma_2")
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
    keep("dinov3_original", "facebookresearch/dinov3", shapes, model, {**ours, **missing})

    # AIMv2, as timm keeps it: RMSNorm, a norm of the patches, no biases.
    arguments = {**size, "num_classes": 5}
    model = timm.create_model("aimv2_large_patch14_224", **arguments)
    shapes = shapes_of(model)
    config = {"architecture": "aimv2_large_patch14_224", "num_classes": 5, "model_args": arguments}
    keep("timm_aimv2", "timm.models.vision_transformer", shapes, model, filled(shapes), json.dumps(config), "logits")

    # torchvision.
    model = torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=5)
    shapes = shapes_of(model)
    keep("torchvision", "torchvision.models.VisionTransformer", shapes, model, filled(shapes), kind="logits")

    # CLIP with its text tower, as openai/CLIP and open_clip save it; the configuration is beside it.
    twin = transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(**VIT, projection_dim=16))
    shapes = {"visual.class_embedding": (32,), "visual.positional_embedding": (17, 32), "visual.proj": (32, 16), "visual.conv1.weight": (32, 3, 8, 8)}

    def parts(base: str, *shape: int) -> dict[str, tuple[int, ...]]:
        return {f"{base}weight": shape, f"{base}bias": shape[:1]}

    shapes |= parts("visual.ln_pre.", 32) | parts("visual.ln_post.", 32)
    for tower, width in (("visual.", 32), ("", 16)):
        for block in range(2):
            base = f"{tower}transformer.resblocks.{block}."
            shapes |= parts(f"{base}ln_1.", width) | parts(f"{base}ln_2.", width) | parts(f"{base}attn.in_proj_", 3 * width, width)
            shapes |= parts(f"{base}attn.out_proj.", width, width) | parts(f"{base}mlp.c_fc.", 2 * width, width)
            shapes |= parts(f"{base}mlp.c_proj.", width, 2 * width)
    shapes |= {"positional_embedding": (4, 16), "token_embedding.weight": (8, 16), "logit_scale": (), **parts("ln_final.", 16),
               "text_projection": (16, 16)}
    tower = {name.removeprefix("visual."): value for name, value in filled(shapes).items() if name.startswith("visual.")}
    state = {
        "vision_model.embeddings.class_embedding": tower["class_embedding"],
        "vision_model.embeddings.position_embedding.weight": tower["positional_embedding"],
        "vision_model.embeddings.patch_embedding.weight": tower["conv1.weight"],
        "visual_projection.weight": tower["proj"].T.contiguous(),
    }
    same = {"pre_layrnorm": "ln_pre", "post_layernorm": "ln_post"}
    for block in range(2):
        ours, theirs = f"encoder.layers.{block}.", f"transformer.resblocks.{block}."
        same |= {f"{ours}layer_norm1": f"{theirs}ln_1", f"{ours}layer_norm2": f"{theirs}ln_2", f"{ours}mlp.fc1": f"{theirs}mlp.c_fc",
                 f"{ours}mlp.fc2": f"{theirs}mlp.c_proj", f"{ours}self_attn.out_proj": f"{theirs}attn.out_proj"}
        for part in ("weight", "bias"):
            for name, rows in zip("qkv", tower[f"{theirs}attn.in_proj_{part}"].chunk(3)):
                state[f"vision_model.{ours}self_attn.{name}_proj.{part}"] = rows
    state |= {f"vision_model.{ours}.{part}": tower[f"{theirs}.{part}"] for ours, theirs in same.items() for part in ("weight", "bias")}
    config = json.dumps({"model_type": "clip", "vision_config": {**VIT, "hidden_act": "quick_gelu"}})
    keep("open_clip", "mlfoundations/open_clip", shapes, twin, state, config, "logits", image_embeds)


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
