"""The mechanisms of the program as drop-ins for timm's `Attention`: what a layer has, and how it mixes tokens, is the library's."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn

from .. import _library
from ..errors import InvalidArgumentError

_library.library()  # registers the operators


class Attention(nn.Module):
    """x (B, N, D) -> (B, N, D): q, k and v by `qkv`, `mechanism` among all tokens, `proj`.

    Parameters have the names that the program's checkpoints have, and begin as the program begins them. Options are those
    of `hydrascope models info MECHANISM`. `training_grid` is (prefix tokens, rows, columns) of the size that the model was
    trained at, `grid` that of the pictures to come; both matter to mechanisms with places or with sums that grow with N.
    """

    mechanism: str = "softmax"

    def __init__(self, dim: int, num_heads: int = 8, qkv_bias: bool = True, proj_drop: float = 0.0, *,
                 mechanism: str | None = None, training_grid: tuple[int, int, int] = (1, 14, 14), layer: int = 0, depth: int = 1,
                 **options: Any) -> None:
        super().__init__()
        if dim % num_heads:
            raise InvalidArgumentError(f"expected a multiple of {num_heads} heads, found {dim} features")
        words = {name: {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
                 for name, value in options.items()}
        made, = _library.layers([{"mechanism": mechanism or self.mechanism, "options": words}])
        self.mechanism, self.options = made["mechanism"], made["options"]
        self.facts = _library.mechanism(self.mechanism)
        self.num_heads, self.head_dim, self.grid = num_heads, dim // num_heads, tuple(training_grid)
        self._layer = json.dumps({**made, "num_heads": num_heads, "head_dim": dim // num_heads, "index": layer, "depth": depth,
                                  "grid": self.grid})
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)
        for name, value in torch.ops.hydrascope.mixer_parameters(self._layer).items():
            owner, (*path, leaf) = self, name.split(".")
            for part in path:
                if not hasattr(owner, part):
                    owner.add_module(part, nn.Module())
                owner = getattr(owner, part)
            if value.requires_grad:
                owner.register_parameter(leaf, nn.Parameter(value.detach()))
            else:
                owner.register_buffer(leaf, value)

    @classmethod
    def in_place_of(cls, attention: nn.Module, **arguments: Any) -> Attention:
        """With the projections of a timm `Attention`, or of another of these."""
        for name in ("q_norm", "k_norm", "norm"):
            if not isinstance(getattr(attention, name, None), (nn.Identity, type(None))):
                raise InvalidArgumentError(f"an attention with {name} cannot be replaced")
        qkv, proj = attention.qkv, attention.proj
        if proj.out_features * 3 != qkv.out_features:
            raise InvalidArgumentError("an attention whose heads are wider than its tokens cannot be replaced")
        with torch.device("meta"):  # what the projections are replaced by
            made = cls(proj.out_features, attention.num_heads, **arguments)
        made.qkv, made.proj, made.proj_drop = qkv, proj, attention.proj_drop
        return made.to(qkv.weight.device, qkv.weight.dtype).train(attention.training)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, d) each -> (B, N, D)."""
        tokens, (prefix, rows, columns) = q.shape[2], self.grid
        if tokens != prefix + rows * columns:
            if not self.facts["permutation_equivariant"]:
                raise InvalidArgumentError(f"{self.mechanism} must know where patches lie: expected {prefix} + {rows} x {columns} "
                                           f"tokens, found {tokens} (`grid` of the module says it)")
            rows, columns = 1, tokens - prefix
        own = {name: value for name, value in (*self.named_parameters(), *self.named_buffers())
               if not name.startswith(("qkv.", "proj."))}
        return torch.ops.hydrascope.mix(q, k, v, own, self._layer, (prefix, rows, columns))

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None or is_causal:
            raise InvalidArgumentError(f"{self.mechanism} has no mask")
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        if self.facts["query_is_input"]:
            q = x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2).to(k.dtype)
        return self.proj_drop(self.proj(self.mix(q, k, v)))

    def extra_repr(self) -> str:
        return ", ".join([self.mechanism, *(f"{key}={value}" for key, value in self.options.items())])


class HydraAttention(Attention):
    """Hydra Attention (Bolya et al. 2022, arXiv 2209.07484): one vector of D values for all tokens."""
    mechanism = "hydra"


class HedgehogAttention(Attention):
    """Hedgehog (Zhang et al. 2024, arXiv 2402.04347): linear attention whose learned map imitates softmax."""
    mechanism = "hedgehog"


class LinearAttention(Attention):
    """Linear attention with phi = elu + 1 (Katharopoulos et al. 2020, arXiv 2006.16236)."""
    mechanism = "elu"


class WindowAttention(Attention):
    """Softmax within windows of the grid (Liu et al. 2021, arXiv 2103.14030)."""
    mechanism = "window"
