"""The library's functional multi-head attention on qkv and proj (its mask says True = hidden), time first inside."""

import torch
from torch import nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self._check(dim, num_heads)
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    @staticmethod
    def _check(dim, num_heads):
        if dim % num_heads:
            raise ValueError(f"cannot cut {dim} channels into {num_heads} heads")

    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        sequence = x.transpose(0, 1)
        out, _ = F.multi_head_attention_forward(
            sequence, sequence, sequence, x.shape[-1], self.num_heads, self.qkv.weight, self.qkv.bias, None, None,
            False, 0.0, self.proj.weight, self.proj.bias, training=self.training, need_weights=False, attn_mask=hidden,
        )  # fmt: skip
        return out.transpose(0, 1)


class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        sublayers = {"n1": nn.LayerNorm(dim), "attn": CausalSelfAttention(dim, num_heads), "n2": nn.LayerNorm(dim)}
        for name, layer in sublayers.items():
            self.add_module(name, layer)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        for norm, sublayer in ((self.n1, self.attn), (self.n2, self.mlp)):
            x = x + sublayer(norm(x))
        return x


def count_parameters(module, trainable_only=True):
    tensors = {p for p in module.parameters() if p.requires_grad or not trainable_only}
    return sum(map(torch.numel, tensors))


def decoder_block_parameters(dim):
    with torch.device("meta"):
        return count_parameters(DecoderBlock(dim, 1))
