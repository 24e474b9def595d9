"""timm's vision transformer written out, with timm's names of tensors, for machines that have PyTorch alone."""

from typing import Any

WIDTHS = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}  # D, heads


def create_model(arch: str, img_size: tuple[int, int]) -> Any:
    """deit_ and vit_ models of patch 16, depth 12, 1000 classes and softmax by scaled_dot_product_attention."""
    import torch
    from torch import nn

    size = next((name for name in WIDTHS if arch in (f"deit_{name}_patch16_224", f"vit_{name}_patch16_224")), None)
    if size is None:
        raise ValueError(f"{arch} needs timm, which is not installed")
    dim, heads = WIDTHS[size]

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(dim, 3 * dim)
            self.proj = nn.Linear(dim, dim)

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            q, k, v = self.qkv(x).view(batch, tokens, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.proj(y.transpose(1, 2).reshape(batch, tokens, dim))

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(dim, 4 * dim)
            self.fc2 = nn.Linear(4 * dim, dim)

        def forward(self, x: Any) -> Any:
            return self.fc2(nn.functional.gelu(self.fc1(x)))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(dim, eps=1e-6)
            self.attn = Attention()
            self.norm2 = nn.LayerNorm(dim, eps=1e-6)
            self.mlp = Mlp()

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 1e-6)
            patches = (img_size[0] // 16) * (img_size[1] // 16)
            self.pos_embed = nn.Parameter(torch.randn(1, 1 + patches, dim) * 0.02)
            self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, 16, 16)})
            self.blocks = nn.Sequential(*(Block() for _ in range(12)))
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.head = nn.Linear(dim, 1000)

        def forward(self, images: Any) -> Any:
            x = self.patch_embed["proj"](images).flatten(2).transpose(1, 2)
            x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Vit()
