"""A linear layer of its own by tensordot, heads in a list, baddbmm, an MLP that is a subclass of Sequential."""

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(fan_out))
        self.weight = nn.Parameter(torch.randn(fan_out, fan_in) / fan_in**0.5)

    def forward(self, x):
        return torch.tensordot(x, self.weight, dims=([-1], [1])) + self.bias


class MLP(nn.Sequential):
    def __init__(self, dim):
        super().__init__(Linear(dim, 4 * dim), nn.GELU(), Linear(4 * dim, dim))


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        if dim % num_heads != 0:
            raise ValueError(f"dim ({dim}) must be a multiple of num_heads ({num_heads})")
        self.dim, self.num_heads = dim, num_heads
        self.qkv = Linear(dim, 3 * dim)
        self.proj = Linear(dim, dim)

    def forward(self, x):
        time = x.size(1)
        hidden = torch.triu(x.new_full((time, time), float("-inf")), 1)
        q, k, v = self.qkv(x).tensor_split(3, dim=2)
        heads = []
        triples = zip(*(part.tensor_split(self.num_heads, dim=2) for part in (q, k, v)), strict=True)
        for qh, kh, vh in triples:
            scores = torch.baddbmm(hidden.expand(len(x), -1, -1), qh, kh.transpose(1, 2), alpha=qh.size(-1) ** -0.5)
            heads.append(torch.softmax(scores.float(), -1).type_as(vh) @ vh)
        return self.proj(torch.cat(heads, -1))


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        nn.Module.__init__(self)
        self.attn = CausalSelfAttention(dim, num_heads)
        self.mlp = MLP(dim)
        self.n1 = nn.LayerNorm(dim, 1e-05)
        self.n2 = nn.LayerNorm(dim, 1e-05)

    def forward(self, x):
        x = self.attn(self.n1(x)).add(x)
        return self.mlp(self.n2(x)).add(x)


def count_parameters(module, trainable_only=True):
    return sum(p.numel() * (1 if p.requires_grad else 1 - bool(trainable_only)) for p in module.parameters())


def decoder_block_parameters(dim):
    return 12 * dim * dim + 13 * dim
