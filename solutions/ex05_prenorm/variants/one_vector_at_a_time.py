"""Unusual: the norm loops over single vectors, the feed-forward over positions; a Residual class wraps the sublayer."""

import math

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.ones(dim)))
        self.register_parameter("bias", nn.Parameter(torch.zeros(dim)))
        self.eps = eps

    def one(self, v):
        deviation = v - v.mean()
        return (
            deviation
            / math.sqrt(len(v))
            / (deviation.div(math.sqrt(len(v))).pow(2).sum() + self.eps).sqrt()
            * math.sqrt(len(v))
        )

    def forward(self, x):
        rows = torch.stack([self.one(v) for v in x.reshape(-1, x.shape[-1])])
        return (rows * self.weight + self.bias).view(x.shape)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=True)
        self.down = nn.Linear(hidden, dim, bias=True)
        self.dropout = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    def forward(self, x):
        columns = [self.dropout(self.down(nn.functional.gelu(self.up(column)))) for column in x.unbind(dim=-2)]
        return torch.stack(columns, dim=-2)


class Residual(nn.Module):
    def forward(self, x, *layers):
        out = x
        for layer in layers:
            out = layer(out)
        return x + out


class PreNormBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.norm = LayerNorm(dim=dim)
        self.ffn = FeedForward(dim=dim, hidden=hidden, dropout=dropout)
        self.residual = Residual()

    def forward(self, x):
        return self.residual(x, self.norm, self.ffn)
