"""The mechanisms of the program that its operators compute, as drop-ins for timm's `Attention`.

Parameters have the names that the program's checkpoints have: qkv, proj, feature_scale, feature_map.q.weight. Options are
those of `hydrascope models info MECHANISM`, as words.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .. import _library
from ..errors import InvalidArgumentError

_library.library()  # registers the operators
_ops = torch.ops.hydrascope


class OperatorAttention(nn.Module):
    """x (B, N, D) -> (B, N, D): q, k and v by `qkv`, a mechanism of all tokens among all, `proj`.

    `num_prefix_tokens` come in front of the patches, and `training_tokens` is N at the size that the model was trained
    at; both matter to mechanisms whose sums grow with N.
    """

    mechanism: ClassVar[str]
    has: ClassVar[tuple[str, ...]] = ()
    """The options of the mechanism that this module computes; the others are at their defaults."""
    lacks: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Their values that it does not compute."""

    def __init__(self, dim: int, num_heads: int = 8, qkv_bias: bool = True, proj_drop: float = 0.0, *,
                 num_prefix_tokens: int = 1, training_tokens: int = 197, **options: Any) -> None:
        super().__init__()
        if dim % num_heads:
            raise InvalidArgumentError(f"expected a multiple of {num_heads} heads, found {dim} features")
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.num_prefix_tokens, self.training_tokens = num_prefix_tokens, training_tokens
        words = {name: {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
                 for name, value in options.items()}
        layer, = _library.layers([{"mechanism": self.mechanism, "options": words}])
        self.options = self.computed(layer["options"])
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)
        self.add_parameters()

    @classmethod
    def in_place_of(cls, attention: nn.Module, **arguments: Any) -> OperatorAttention:
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
        made.add_parameters()
        made.to(qkv.weight.device, qkv.weight.dtype)
        return made.train(attention.training)

    @classmethod
    def computed(cls, options: dict[str, str]) -> dict[str, str]:
        """Those of all options that this module has; refuses values of the mechanism that it does not compute."""
        for one in _library.mechanisms()[cls.mechanism]["options"]:
            name, value = one["key"], options[one["key"]]
            if value in cls.lacks.get(name, ()) or (name not in cls.has and value != one["default"]):
                raise InvalidArgumentError(f"there is no module of {cls.mechanism} with {name}={value}")
        return {name: options[name] for name in cls.has}

    def add_parameters(self) -> None:
        """What the mechanism has beside the projections."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, d) each -> the same."""
        raise NotImplementedError

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None or is_causal:
            raise InvalidArgumentError(f"{self.mechanism} has no mask")
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        return self.proj_drop(self.proj(self.mix(q, k, v).transpose(1, 2).flatten(2)))

    def extra_repr(self) -> str:
        return ", ".join([self.mechanism, *(f"{key}={value}" for key, value in self.options.items())])


class HydraAttention(OperatorAttention):
    """Hydra Attention (Bolya et al. 2022, arXiv 2209.07484): one vector of D values for all tokens."""

    mechanism = "hydra"
    has = ("phi_q", "phi_k", "scale", "eps", "feature_scale")
    lacks = dict.fromkeys(("phi_q", "phi_k"), ("mean", "softmax_token", "softmax_feature"))
    _NORMS: ClassVar[dict[str, str]] = {"cosine": "l2", "l1": "l1"}

    def add_parameters(self) -> None:
        wanted = self.options["feature_scale"] == "on"
        self.feature_scale = nn.Parameter(torch.ones(self.num_heads * self.head_dim)) if wanted else None

    def token_weights(self, tokens: int) -> tuple[float, float]:
        """Of a prefix token and of a patch, among N."""
        before, prefix = self.training_tokens, self.num_prefix_tokens
        return {"none": (1.0, 1.0),
                "linear": (before / tokens, before / tokens),
                "patch": (1.0, (before - prefix) / max(1, tokens - prefix)),
                "sqrt": ((before / tokens) ** 0.5, (before / tokens) ** 0.5)}[self.options["scale"]]

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        of_prefix, of_patch = self.token_weights(q.shape[2])
        norms = []
        for name, x in (("phi_q", q), ("phi_k", k)):
            phi = self.options[name]
            norms.append(self._NORMS.get(phi, "none"))
            if phi not in self._NORMS:
                x = getattr(torch, phi)(x)
            q, k = (x, k) if name == "phi_q" else (q, x)
        return _ops.hydra_attention(
            q, k, v, norm_q=norms[0], norm_k=norms[1], eps=float(self.options["eps"]), feature_scale=self.feature_scale,
            num_prefix=self.num_prefix_tokens, prefix_weight=of_prefix, patch_weight=of_patch)


class LinearAttention(OperatorAttention):
    """Linear attention with phi = elu + 1 (Katharopoulos et al. 2020, arXiv 2006.16236)."""

    mechanism = "elu"

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _ops.linear_attention(q, k, v, feature="elu")


class ReluAttention(OperatorAttention):
    """Linear attention with phi = ReLU."""

    mechanism = "relu"

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _ops.linear_attention(q, k, v, feature="relu")


class ExpAttention(OperatorAttention):
    """Linear attention with phi = exp(t x) (Zhang et al. 2024, arXiv 2402.04347, section 3)."""

    mechanism = "exp"
    has = ("t",)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        t = float(self.options["t"])
        return _ops.linear_attention(q * t, k * t, v, feature="exp")


class _FeatureMap(nn.Module):
    """u = x W + b of every head: W (H, d, w) or (d, w), which begins as the identity; b (H, w) or (w)."""

    def __init__(self, heads: int | None, width: int, out: int, bias: bool, noise: float) -> None:
        super().__init__()
        weight = torch.eye(width, out)
        if heads is not None:
            weight = weight.repeat(heads, 1, 1)
        if out > width:
            weight[..., width:] = torch.randn_like(weight[..., width:]) * (2 / width) ** 0.5
        self.weight = nn.Parameter(weight + noise * torch.randn_like(weight) if noise else weight)
        self.bias = nn.Parameter(torch.zeros(weight.shape[:-2] + (out,))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        u = x @ self.weight
        return u if self.bias is None else u + (self.bias if self.bias.ndim == 1 else self.bias[:, None])


class _LearnedAttention(OperatorAttention):
    noise: ClassVar[float] = 0.0
    has = ("width", "share_qk", "per_head", "bias")

    def add_parameters(self) -> None:
        def network() -> _FeatureMap:
            return _FeatureMap(self.num_heads if self.options["per_head"] == "on" else None, self.head_dim,
                               int(self.options["width"]) or self.head_dim, self.options["bias"] == "on", self.noise)
        shared = self.options["share_qk"] == "on"
        self.feature_map: nn.Module = network() if shared else nn.ModuleDict({"q": network(), "k": network()})

    def maps(self) -> tuple[_FeatureMap, _FeatureMap]:
        """Of queries and of keys."""
        if isinstance(self.feature_map, _FeatureMap):
            return self.feature_map, self.feature_map
        return self.feature_map["q"], self.feature_map["k"]  # type: ignore[index,return-value]


class HedgehogAttention(_LearnedAttention):
    """Hedgehog (Zhang et al. 2024, arXiv 2402.04347): linear attention whose learned map imitates softmax."""

    mechanism = "hedgehog"
    has = ("variant", *_LearnedAttention.has)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        of_q, of_k = self.maps()
        return _ops.hedgehog_attention(q, k, v, of_q.weight, of_q.bias, of_k.weight, of_k.bias,
                                       variant=self.options["variant"])


class T2RAttention(_LearnedAttention):
    """T2R (Kasai et al. 2021): linear attention with a learned phi = ReLU(x W + b)."""

    mechanism = "t2r"
    noise = 0.01

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        of_q, of_k = self.maps()
        return _ops.linear_attention(of_q(q), of_k(k), v, feature="relu")


MECHANISMS: dict[str, type[OperatorAttention]] = {
    kind.mechanism: kind
    for kind in (HydraAttention, HedgehogAttention, LinearAttention, ReluAttention, ExpAttention, T2RAttention)}
