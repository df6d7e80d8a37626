"""Unusual: angles in float32, but the finished tables are cast to the dtype of x (as large libraries do)."""

import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, positions):
        freqs = torch.einsum("t,d->td", positions.float(), self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


def _even(size):
    if size % 2:
        raise ValueError(f"size {size} is odd")


def rotate_half(x):
    _even(x.shape[-1])
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rope_angles(positions, head_dim, base=10000.0):
    _even(head_dim)
    return RotaryEmbedding(head_dim, base)(positions)


def apply_rope(x, cos, sin):
    cos, sin = cos[None, None].to(x.dtype), sin[None, None].to(x.dtype)
    return (x * cos) + (rotate_half(x) * sin)


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    q = apply_rope(q, *rope_angles(q_positions, q.shape[-1], base))
    k = apply_rope(k, *rope_angles(k_positions, k.shape[-1], base))
    return q.matmul(k.transpose(2, 3)).mul(q.shape[-1] ** -0.5)
