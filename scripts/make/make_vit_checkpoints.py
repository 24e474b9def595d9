"""Makes tests/data/checkpoints/*.pth: what training programs leave behind, of a very small ViT.

    python scripts/make/make_vit_checkpoints.py

Needs torch, timm and numpy. Weights are those of deterministic_weights.py, rounded to float16, so that C++ can make them again: seed 1, and
seed 2 for the moving average. Names are timm's (https://github.com/huggingface/pytorch-image-models, Apache-2.0).
"""

import argparse
from collections import OrderedDict
from pathlib import Path

import timm
import torch
from timm.models.vision_transformer import VisionTransformer

from deterministic_weights import deterministic

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "checkpoints"


def state_dict(seed: int, prefix: str = "") -> "OrderedDict[str, torch.Tensor]":
    model = VisionTransformer(img_size=32, patch_size=8, embed_dim=64, depth=1, num_heads=1, mlp_ratio=1, num_classes=5)
    return OrderedDict((prefix + name, torch.from_numpy(deterministic(name, tensor.shape, seed)).half())
                       for name, tensor in model.state_dict().items())


def main() -> None:
    print(f"torch {torch.__version__}, timm {timm.__version__}")
    optimizer = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"params": [0]}]}
    training = {"epoch": 3, "state_dict": state_dict(1, "module."), "optimizer": optimizer, "args": argparse.Namespace(lr=1e-3, mean=None),
                "state_dict_ema": state_dict(2, "module."), "metric": 71.5}
    torch.save(training, FOLDER / "timm_training.pth")
    # facebookresearch/deit saves {"model": ...}; before PyTorch 1.6 it was no zip file.
    torch.save({"model": state_dict(1), "epoch": 299}, FOLDER / "deit_legacy.pth", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
