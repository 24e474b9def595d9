"""Makes tests/data/peft: an adapter that PEFT wrote for the corpus's ViT, and the weights that PEFT merges.

    python scripts/make/make_peft_goldens.py     # peft 0.21, transformers 5, torch 2.11
"""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import ViTForImageClassification

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/corpus/weights/transformers_5/vit"
TARGET = ROOT / "tests/data/peft"

torch.manual_seed(5)
base = ViTForImageClassification.from_pretrained(MODEL)
names = [name for name, _ in base.named_modules()]
queries = sorted({name.rsplit(".", 1)[-1] for name in names if name.endswith(("query", "q_proj"))})
values = sorted({name.rsplit(".", 1)[-1] for name in names if name.endswith(("value", "v_proj"))})
config = LoraConfig(r=2, lora_alpha=6, target_modules=queries + values, modules_to_save=["classifier"],
                    use_rslora=True)
model = get_peft_model(base, config)
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.add_(0.3 * torch.randn_like(parameter))
model.save_pretrained(TARGET)
(TARGET / "README.md").unlink(missing_ok=True)
config_file = TARGET / "adapter_config.json"
config_file.write_text(config_file.read_text().replace(str(MODEL), "vit"))
merged = model.merge_and_unload()
merged.save_pretrained(TARGET / "merged")
