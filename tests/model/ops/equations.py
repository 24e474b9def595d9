"""The operators' equations with all N x N weights written out, of any floating-point type."""

import torch

FEATURES = ["elu", "relu", "unit", "exp", "exp_pair", "softmax_pair", "softmax_both", "exp_centred"]
VARIANTS = {"exp": "exp_pair", "softmax2": "softmax_pair", "softmax1": "softmax_both", "expdim": "exp_centred",
            "exp_pos": "exp"}


def merged(x):
    return x.transpose(1, 2).flatten(2)


def token_weights(tokens, num_prefix, prefix, patch, like):
    weights = torch.full((tokens,), patch, dtype=like.dtype, device=like.device)
    weights[:num_prefix] = prefix
    return weights


def unit_rows(x, norm, eps):
    if norm == "none":
        return x
    r = x.norm(dim=-1, keepdim=True) if norm == "l2" else x.abs().sum(-1, keepdim=True)
    return x / r.clamp_min(eps)


def hydra(q, k, v, norm_q="l2", norm_k="l2", eps=1e-6, feature_scale=None, num_prefix=0,
          prefix_weight=1.0, patch_weight=1.0):
    w = token_weights(q.shape[2], num_prefix, prefix_weight, patch_weight, q)
    c = (w[None, :, None] * unit_rows(merged(k), norm_k, eps) * merged(v)).sum(1, keepdim=True)
    if feature_scale is not None:
        c = c * feature_scale
    y = unit_rows(merged(q), norm_q, eps) * c
    return y.unflatten(2, (q.shape[1], q.shape[3])).transpose(1, 2)


def mapped(u, feature):
    """Features, or exponents where the map has those."""
    return {
        "elu": lambda: torch.where(u > 0, u + 1, u.clamp_max(0).exp()),
        "relu": lambda: u.relu(),
        "unit": lambda: u / u.norm(dim=-1, keepdim=True).clamp_min(1e-6),
        "exp": lambda: u,
        "exp_pair": lambda: torch.cat([u, -u], -1),
        "softmax_pair": lambda: torch.cat([u.log_softmax(-1), (-u).log_softmax(-1)], -1),
        "softmax_both": lambda: torch.cat([2 * u, -2 * u], -1).log_softmax(-1),
        "exp_centred": lambda: torch.cat([u - u.amax(-1, keepdim=True), u.amin(-1, keepdim=True) - u], -1),
    }[feature]()


def linear(q, k, v, feature="elu", normaliser="add_eps", eps=1e-6, num_prefix=0, prefix_weight=1.0, patch_weight=1.0):
    a, b = mapped(q, feature), mapped(k, feature)
    w = token_weights(k.shape[2], num_prefix, prefix_weight, patch_weight, k)
    if FEATURES.index(feature) >= FEATURES.index("exp"):
        exponents = torch.logsumexp(a.unsqueeze(3) + b.unsqueeze(2), -1)
        weights = (exponents - exponents.detach().amax(-1, keepdim=True)).exp() * w
        return weights @ v / weights.sum(-1, keepdim=True)
    weights = a @ b.transpose(2, 3) * w
    y = weights @ v
    return y / (weights.sum(-1, keepdim=True) + eps) if normaliser == "add_eps" else y


def hedgehog(q, k, v, weight_q=None, bias_q=None, weight_k=None, bias_k=None, variant="exp"):
    def network(x, weight, bias):
        u = x if weight is None else x @ weight
        return u if bias is None else u + (bias if bias.dim() == 1 else bias.unsqueeze(1))

    return linear(network(q, weight_q, bias_q), network(k, weight_k, bias_k), v, VARIANTS[variant])
