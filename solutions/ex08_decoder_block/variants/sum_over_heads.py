"""One head at a time, the heads' shares of the projection summed instead of concatenated; einsum; a fill of -1e4."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        if num_heads < 1 or dim // num_heads * num_heads != dim:
            raise ValueError("width", dim, "heads", num_heads)
        self.dim, self.width, self.heads = dim, dim // num_heads, num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=True)
        self.proj = nn.Linear(dim, dim, bias=True)

    def forward(self, x):
        batch, time, _ = x.shape
        out = self.proj.bias.expand(batch, time, self.dim)
        later = torch.triu(torch.full((time, time), -1e4, dtype=x.dtype, device=x.device), diagonal=1)
        for h in range(self.heads):
            mine = slice(h * self.width, (h + 1) * self.width)
            w = self.qkv.weight.view(3, self.dim, self.dim)[:, mine]  # [3, D, C]
            b = self.qkv.bias.view(3, self.dim)[:, mine]  # [3, D]
            q, k, v = torch.einsum("btc,ndc->nbtd", x, w) + b[:, None, None]
            scores = torch.einsum("btd,bsd->bts", q * self.width**-0.25, k * self.width**-0.25) + later
            out = out + torch.einsum("bts,bsd,cd->btc", scores.softmax(2), v, self.proj.weight[:, mine])
        return out


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.attn = CausalSelfAttention(dim, num_heads)
        for name in ("n1", "n2"):
            setattr(self, name, nn.LayerNorm(dim))
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.Identity(), nn.GELU(approximate="none"))
        self.mlp.append(nn.Linear(4 * dim, dim))

    def forward(self, x):
        attended = self.attn(self.n1(x))
        return x + attended + self.mlp(self.n2(attended + x))


def count_parameters(module, trainable_only=True):
    total = 0
    for _, parameter in module.named_parameters():
        if trainable_only and not parameter.requires_grad:
            continue
        total += parameter.shape.numel()
    return total


def decoder_block_parameters(dim):
    return dim * (12 * dim + 13)
