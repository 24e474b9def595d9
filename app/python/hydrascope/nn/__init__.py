"""Every attention of the program as a module of PyTorch, with gradients, and models of timm as files.

    model = timm.create_model("deit_tiny_patch16_224", pretrained=True)
    hydrascope.nn.replace_attention(model, "hydra:last2")
    ...                                                     # train as any other
    hydrascope.nn.save(model, "mine.safetensors")           # the program reads it, with the same numbers

The operators themselves are `torch.ops.hydrascope` (docs/python.md).
"""

from .. import _torch

_torch.check()  # before PyTorch is imported

from .attention import Attention, HedgehogAttention, HydraAttention, LinearAttention, WindowAttention
from .checkpoints import attention_of, load, replace_attention, save

__all__ = ["Attention", "HedgehogAttention", "HydraAttention", "LinearAttention", "WindowAttention", "attention_of", "load",
           "replace_attention", "save"]
