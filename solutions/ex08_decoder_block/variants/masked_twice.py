"""Zero and renormalise after an unmasked softmax over shifted scores; the mask grows in a plain dict; LayerNorm by F."""

import torch
from torch import nn
from torch.nn import functional as F

TRIANGLES = {}


def triangle(time):
    if time not in TRIANGLES:
        TRIANGLES[time] = torch.tril(torch.ones(time, time)) != 0
    return TRIANGLES[time]


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        if dim % num_heads:
            raise ValueError(str(dim))
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** 0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.num_heads, c // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        allowed = triangle(t)
        scores = torch.where(allowed, q @ k.transpose(2, 3) / self.scale, torch.tensor(-1e9, dtype=x.dtype))
        weights = scores.softmax(-1) * allowed
        weights = weights / weights.sum(-1, keepdim=True)
        return F.linear((weights @ v).transpose(1, 2).contiguous().view(b, t, c), self.proj.weight, self.proj.bias)


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.n2 = nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        h = x + self.attn(F.layer_norm(x, x.shape[-1:], self.n1.weight, self.n1.bias))
        up, _, down = self.mlp
        normed = F.layer_norm(h, h.shape[-1:], self.n2.weight, self.n2.bias)
        return h + F.linear(F.gelu(F.linear(normed, up.weight, up.bias)), down.weight, down.bias)


def count_parameters(module, trainable_only=True):
    return torch.nn.utils.parameters_to_vector(
        [torch.zeros(0), *(p for p in module.parameters() if p.requires_grad or not trainable_only)]
    ).numel()


def decoder_block_parameters(dim):
    return sum([12 * dim * dim, 13 * dim])
