"""Unusual: the mathematics are TorchScript functions; the unbiased variance is corrected afterwards."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@torch.jit.script
def standardize(x: Tensor, eps: float) -> Tensor:
    c = x.shape[-1]
    if c == 1:
        return x - x
    variance = torch.var(x, -1, True, True) * ((c - 1) / c)
    return (x - torch.mean(x, -1, True)) / torch.sqrt(variance + eps)


@torch.jit.script
def exact_gelu(x: Tensor) -> Tensor:
    return x * (1.0 + torch.erf(x * 0.7071067811865476)) / 2.0


class LayerNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps, self.dim = eps, dim
        self.weight = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * standardize(x, self.eps) + self.bias


class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int, dropout: float = 0.0):
        super().__init__()
        self.up, self.down, self.rate = nn.Linear(dim, hidden), nn.Linear(hidden, dim), dropout

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.down(exact_gelu(self.up(x))), self.rate, self.training)


class PreNormBlock(nn.Module):
    def __init__(self, dim: int, hidden: int, dropout: float = 0.0):
        super().__init__()
        self.norm, self.ffn = LayerNorm(dim), FeedForward(dim, hidden, dropout)

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.norm(x)
        x = self.ffn(x)
        return residual + x
