"""Unusual: LayerNorm inherits from nn.LayerNorm but computes by itself; the feed-forward is an nn.Sequential with names."""

from collections import OrderedDict

import torch
from torch import nn


class LayerNorm(nn.LayerNorm):
    def __init__(self, dim, eps=1e-5):
        super().__init__(dim, eps=eps)

    def forward(self, input):
        # F.layer_norm would do, but it is forbidden here
        var, mean = torch.var_mean(input, dim=-1, keepdim=True, correction=0)
        return torch.addcmul(self.bias, (input - mean) / (var + self.eps) ** 0.5, self.weight)


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__(
            OrderedDict(up=nn.Linear(dim, hidden), act=nn.GELU(), down=nn.Linear(hidden, dim), drop=nn.Dropout(dropout))
        )


class PreNormBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.add_module("norm", LayerNorm(dim))
        self.add_module("ffn", FeedForward(dim, hidden, dropout))

    def forward(self, x):
        branch = x
        for layer in self.children():
            branch = layer(branch)
        return branch + x
