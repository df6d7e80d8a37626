"""Unusual: the mean is removed by a matrix kept as a buffer; the layers are registered twice; dropout multiplies by a mask."""

import torch
from torch import nn
from torch.nn import functional as F


class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer("centre", torch.eye(dim) - 1.0 / dim)  # [C, C]
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        c = x @ self.centre.to(x.dtype)
        length = torch.einsum("...c,...c->...", c, c)[..., None] / x.size(-1)
        return torch.einsum("...c,c->...c", c / torch.sqrt(length + self.eps), self.weight) + self.bias


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        up, down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.layers = nn.ModuleList([up, down])  # also here: the same parameters under two names
        self.up = up
        self.down = down
        self.dropout = dropout

    def forward(self, x):
        y = F.linear(x, self.layers[0].weight, self.up.bias)
        y = F.gelu(y, approximate="none")
        y = y @ self.down.weight.mT + self.layers[1].bias
        if self.training:
            y = y * torch.bernoulli(torch.full_like(y, 1 - self.dropout)).div(1 - self.dropout)
        return y


class PreNormBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.norm = LayerNorm(dim)
        self.ffn = FeedForward(dim, hidden, dropout)
        self.steps = nn.Sequential(self.norm, self.ffn)

    def forward(self, x):
        return torch.stack([x, self.steps(x)]).sum(0)
