"""Makes tests/data/hugging_face/*: small random models as transformers saves them, and its answers.

    python scripts/make/make_hugging_face_fixtures.py

Needs torch, transformers, Pillow and safetensors. Names of tensors and defaults of image processors
differ between transformers 4 and 5, so the script is run once with each; folders end in the major
version. A folder holds what save_pretrained writes and expected.safetensors:

    logits          (2, 5)       for pixel values of deterministic_weights.py, name "input", seed 42
    logits_resized  (1, 5)       the same of 24 x 32 pixels, with interpolate_pos_encoding
    pixel_values    (3, 16, 16)  the image processor's output for tests/data/images/colour.png

Logits are computed in float64 and stored as float32.
"""

import json
import shutil
from pathlib import Path

import torch
import transformers
from deterministic_weights import deterministic
from PIL import Image
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "data" / "hugging_face"
PICTURE = ROOT / "tests" / "data" / "images" / "colour.png"
MAJOR = transformers.__version__.partition(".")[0]
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": 16,
    "patch_size": 4,
    "num_labels": 5,
}


def models():
    """Name -> model and image processor."""
    vit = transformers.ViTConfig(**SIZES)
    deit = transformers.DeiTConfig(**SIZES, layer_norm_eps=1e-6)
    plain = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    cropping = transformers.DeiTImageProcessor(
        size={"height": 20, "width": 20}, crop_size={"height": 16, "width": 16}
    )
    return {
        "vit": (transformers.ViTForImageClassification(vit), plain),
        "vit_state_dict": (transformers.ViTForImageClassification(vit), plain),
        "vit_without_bias": (
            transformers.ViTForImageClassification(
                transformers.ViTConfig(**SIZES, qkv_bias=False, layer_norm_eps=1e-3)
            ),
            plain,
        ),
        "deit": (transformers.DeiTForImageClassification(deit), cropping),
        "deit_distilled": (transformers.DeiTForImageClassificationWithTeacher(deit), cropping),
    }


def randomise(model) -> None:
    """Weights far enough from their initialisation that each of them matters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(0.2 * torch.randn_like(parameter) + (1.0 if is_scale else 0.0))


def images(*shape: int) -> torch.Tensor:
    return torch.from_numpy(deterministic("input", shape, 42)).double()


def main() -> None:
    torch.manual_seed(7)
    for name, (model, processor) in models().items():
        randomise(model)
        model.eval()
        folder = FOLDER / f"{name}_{MAJOR}"
        shutil.rmtree(folder, ignore_errors=True)
        # Several files and their index, as large models are stored.
        options = {"max_shard_size": "4KB"} if name == "vit" else {}
        model.save_pretrained(folder, **options)
        if name == "vit_state_dict":
            # The names that version 5 has in memory; save_pretrained writes those of version 4.
            save_file(model.state_dict(), folder / "model.safetensors")
        processor.save_pretrained(folder)
        exact = model.double()
        with torch.no_grad():
            expected = {
                "logits": exact(images(2, 3, 16, 16)).logits,
                "logits_resized": exact(
                    images(1, 3, 24, 32), interpolate_pos_encoding=True
                ).logits,
            }
        processed = processor(Image.open(PICTURE).convert("RGB"), return_tensors="pt")
        expected["pixel_values"] = processed["pixel_values"][0]
        save_file(
            {key: value.float().contiguous() for key, value in expected.items()},
            folder / "expected.safetensors",
            {"transformers": transformers.__version__, "torch": torch.__version__},
        )
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(folder.name, sorted(file.name for file in folder.iterdir()), size, "bytes")
        print(json.dumps(expected["logits"][0].tolist()))


if __name__ == "__main__":
    main()
