"""No mask at all: each query attends to a slice of the keys, one position after the other. Weights used as matrices."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        remainder = dim % num_heads
        if remainder > 0:
            raise ValueError(f"{dim} = {num_heads} * {dim // num_heads} + {remainder}")
        self.H = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, T, C = x.size()
        qkv = x @ self.qkv.weight.T + self.qkv.bias
        q, k, v = [qkv[..., i * C : (i + 1) * C].reshape(B, T, self.H, C // self.H) for i in range(3)]
        outs = []
        for t in range(T):
            scores = (q[:, t, None] * k[:, : t + 1]).sum(-1) * (C / self.H) ** -0.5  # [B, t + 1, H]
            outs.append((scores.softmax(dim=1)[..., None] * v[:, : t + 1]).sum(1).flatten(1))  # [B, C]
        return torch.stack(outs, 1) @ self.proj.weight.t() + self.proj.bias


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.n1 = nn.LayerNorm([dim])
        self.attn = CausalSelfAttention(dim, num_heads=num_heads)
        self.n2 = nn.LayerNorm([dim])
        self.mlp = nn.Sequential(*[nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim)])

    def forward(self, x):
        residual = x
        x = self.n1(x)
        x = self.attn(x)
        x = residual + x
        residual = x
        x = self.n2(x)
        for layer in self.mlp:
            x = layer(x)
        return residual + x


def count_parameters(module: nn.Module, trainable_only: bool = True) -> int:
    def own(m, seen):
        here = [p for p in m._parameters.values() if p is not None and p not in seen]
        seen |= set(here)
        mine = sum(p.numel() for p in here if p.requires_grad or trainable_only is False)
        return mine + sum(own(child, seen) for child in m.children())

    return own(module, set())


def decoder_block_parameters(dim: int) -> int:
    return (3 * dim + dim) * (dim + 1) + 4 * dim * (dim + 1) + dim * (4 * dim + 1) + 4 * dim
