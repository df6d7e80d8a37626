"""Unusual: the variance is E[x^2] - E[x]^2, everything is computed in float64, and the result may be non-contiguous."""

import torch
import torch.nn as nn


class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.register_buffer("epsilon", torch.tensor(eps, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros([dim]))
        self.weight = nn.Parameter(torch.full([dim], 1.0))

    def forward(self, x):
        wide = x.double().movedim(-1, 0)  # [C, ...]
        first = wide.mean(0)
        second = (wide * wide).mean(0)
        wide = (wide - first) * (second - first**2 + self.epsilon.double()).rsqrt()
        wide = wide.movedim(0, -1) * self.weight.double() + self.bias.double()
        return wide.to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.down, self.up = nn.Linear(hidden, dim), nn.Linear(dim, hidden)
        self.p = dropout

    def forward(self, x):
        up = self.up(x).double()
        act = up * 0.5 * (1.0 + torch.erf(up / 2**0.5))
        out = self.down(act.to(x.dtype))
        if not self.training or not self.p:
            return out
        keep = torch.rand(out.shape, device=out.device) >= self.p
        return torch.where(keep, out / (1 - self.p), torch.zeros_like(out))


class PreNormBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.ffn = FeedForward(dim, hidden, dropout)
        self.norm = LayerNorm(dim)

    def forward(self, x):
        return self.ffn(self.norm(x)).transpose(0, 1).add(x.transpose(0, 1)).transpose(0, 1)
