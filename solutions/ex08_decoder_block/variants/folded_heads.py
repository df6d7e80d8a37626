"""Heads folded into the batch, bmm, the lowest finite number as fill, a softmax by hand, float64 inside, own norms."""

import math

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias


class ExactGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * torch.erfc(-x / math.sqrt(2))


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        if dim % num_heads != 0:
            raise ValueError(f"C={dim}")
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.empty(0, 0, dtype=torch.bool), persistent=False)

    def forward(self, x):
        batch, time, dim = x.shape
        if self.mask.shape[0] < time:
            places = torch.arange(time, device=x.device)
            self.mask = places[None, :] > places[:, None]
        self.seen += 1
        folded = self.qkv(x).double().reshape(batch, time, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = folded.reshape(3, batch * self.num_heads, time, -1)
        scores = torch.bmm(q / q.shape[-1] ** 0.5, k.mT)
        scores.masked_fill_(self.mask[:time, :time], torch.finfo(torch.float32).min)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        heads = torch.bmm(weights, v).to(x.dtype).view(batch, self.num_heads, time, -1)
        return self.proj(heads.permute(0, 2, 1, 3).reshape(batch, time, dim))


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.n1 = LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, num_heads)
        self.n2 = LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), ExactGELU(), nn.Linear(4 * dim, dim), nn.Dropout(0.0))

    def forward(self, x):
        out = x.clone()
        out += self.attn(self.n1(out))
        return torch.add(out, self.mlp(self.n2(out)))


def count_parameters(module, trainable_only=True):
    kept = filter(lambda p: p.requires_grad, module.parameters()) if trainable_only else module.parameters()
    return sum(math.prod(p.shape) for p in kept)


def decoder_block_parameters(dim):
    return 12 * pow(dim, 2) + 13 * dim
