"""Attentions that are linear in the number of tokens, as modules of PyTorch with fused kernels and gradients.

    model = timm.create_model("deit_tiny_patch16_224", pretrained=True)
    hydrascope.nn.replace_attention(model, "hydra:last2")
    ...                                                     # train as any other
    hydrascope.nn.save(model, "mine.safetensors")           # the program reads it, with the same numbers

The operators themselves are `torch.ops.hydrascope` (docs/python.md).
"""

from .. import _torch

_torch.check()  # before PyTorch is imported

from .attention import (ExpAttention, HedgehogAttention, HydraAttention, LinearAttention, OperatorAttention,
                        ReluAttention, T2RAttention)
from .checkpoints import load, save
from .replacement import attention_of, replace_attention

__all__ = ["ExpAttention", "HedgehogAttention", "HydraAttention", "LinearAttention", "OperatorAttention",
           "ReluAttention", "T2RAttention", "attention_of", "load", "replace_attention", "save"]
