"""Unusual: the norm always computes in float32 at least, `torch.std` squared stands for the variance, forward hooks count."""

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_forward_hook(lambda module, args, out: module.calls.add_(1) and None)

    def forward(self, x):
        up = x if x.dtype == torch.float64 else x.float()
        deviation = torch.std(up, dim=-1, keepdim=True, unbiased=False)
        out = (up - up.mean(-1, True)) * torch.reciprocal(torch.sqrt(deviation * deviation + self.eps))
        return out.type_as(x) * self.weight + self.bias


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.up.weight, std=0.02)
        nn.init.zeros_(self.down.bias)

    def forward(self, x):
        h = self.up(x)
        h = h * torch.special.ndtr(h.float() if h.dtype != torch.float64 else h).to(h.dtype)
        return self.dropout(self.down(h))


class PreNormBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.norm = LayerNorm(dim, eps=1e-5)
        self.ffn = FeedForward(dim, hidden, dropout=dropout)

    def forward(self, x):
        return torch.add(self.ffn(self.norm(x)), x, alpha=1)
