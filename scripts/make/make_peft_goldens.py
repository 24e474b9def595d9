"""Makes tests/data/peft: adapters that PEFT wrote for the corpus's ViT, and the weights that PEFT merges out of them.

    python scripts/make/make_peft_goldens.py     # peft 0.21, transformers 5, torch 2.11
"""

import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import ViTForImageClassification

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/corpus/weights/transformers_5/vit"
TARGET = ROOT / "tests/data/peft"


def base() -> ViTForImageClassification:
    return ViTForImageClassification.from_pretrained(MODEL)


def make(folder: Path, **settings) -> ViTForImageClassification:
    """Writes an adapter, and gives the model that PEFT merges out of its files."""
    torch.manual_seed(5)
    model = get_peft_model(base(), LoraConfig(r=2, lora_alpha=6, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_file = folder / "adapter_config.json"
    config_file.write_text(config_file.read_text().replace(str(MODEL), "vit"))
    return PeftModel.from_pretrained(base(), folder).merge_and_unload()


def make_changes(name: str, **settings) -> None:
    """The same, with the merged tensors that are not the base's."""
    merged = make(TARGET / name, **settings)
    with tempfile.TemporaryDirectory() as folder:
        merged.save_pretrained(folder)
        tensors = load_file(Path(folder) / "model.safetensors")
        base().save_pretrained(folder)
        before = load_file(Path(folder) / "model.safetensors")
    changed = {key: value for key, value in tensors.items() if not torch.equal(value, before[key])}
    save_file(changed, TARGET / name / "merged.safetensors")


names = [name for name, _ in base().named_modules()]
queries = sorted({name.rsplit(".", 1)[-1] for name in names if name.endswith(("query", "q_proj"))})
values = sorted({name.rsplit(".", 1)[-1] for name in names if name.endswith(("value", "v_proj"))})
whole = make(TARGET, target_modules=queries + values, modules_to_save=["classifier"], use_rslora=True)
whole.save_pretrained(TARGET / "merged")
make_changes("biases", target_modules=[*queries, "projection"], bias="all", lora_bias=True, modules_to_save=["classifier"])
layers = [*queries, "fc1", "fc2"]
make_changes("pissa", target_modules=layers, init_lora_weights="pissa", rank_pattern={"fc1": 3})
make_changes("olora", target_modules=layers, init_lora_weights="olora", bias="lora_only", use_rslora=True)
