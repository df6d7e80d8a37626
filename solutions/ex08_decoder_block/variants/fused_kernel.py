"""The fused kernel with is_causal, an OrderedDict inside the MLP, names for the exception, the formula by parts."""

from collections import OrderedDict

import torch.nn as nn
import torch.nn.functional as F


class HeadsDoNotFit(ValueError):
    pass


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        if dim % num_heads:
            raise HeadsDoNotFit("num_heads=%d" % num_heads)
        self.h = num_heads
        self.proj = nn.Linear(dim, dim)
        self.qkv = nn.Linear(dim, dim * 3)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).movedim(-2, 1) for t in self.qkv(x).chunk(3, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).movedim(1, -2).flatten(-2))


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        layers = [("up", nn.Linear(dim, 4 * dim)), ("gelu", nn.GELU()), ("down", nn.Linear(4 * dim, dim))]
        self.mlp = nn.Sequential(OrderedDict(layers))
        self.n2, self.n1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, num_heads)

    def forward(self, x):
        return (y := x + self.attn(self.n1(x))) + self.mlp(self.n2(y))


def count_parameters(module, trainable_only=True):
    seen = {}
    for parameter in module.parameters():
        seen[id(parameter)] = parameter
    return int(sum(p.nelement() for p in seen.values() if not trainable_only or p.requires_grad))


def decoder_block_parameters(dim):
    norms = 2 * (dim + dim)
    attention = (dim * 3 * dim + 3 * dim) + (dim * dim + dim)
    mlp = (dim * 4 * dim + 4 * dim) + (4 * dim * dim + dim)
    return norms + attention + mlp
