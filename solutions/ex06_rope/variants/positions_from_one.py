"""Unusual: inside the scores positions count from 1 for q and k alike; keys come first in the product, which is turned over."""

import math

import torch


def rotate_half(x):
    half, rest = divmod(x.shape[-1], 2)
    if rest:
        raise ValueError(f"{x.shape[-1]} channels cannot be split in halves")
    return torch.cat((x[..., half:].neg(), x[..., :half]), dim=x.dim() - 1)


def rope_angles(positions, head_dim, base=10000.0):
    half, rest = divmod(head_dim, 2)
    if rest:
        raise ValueError(f"{head_dim} channels cannot be split in halves")
    exponents = torch.arange(half, dtype=torch.float32).repeat(2) * 2 / head_dim
    angles = positions.float().view(-1, 1) / torch.pow(base, exponents).view(1, -1)
    return torch.sin(angles + math.pi / 2), torch.sin(angles)


def apply_rope(x, cos, sin):
    return torch.stack([x[:, :, t] * cos[t] + rotate_half(x[:, :, t]) * sin[t] for t in range(x.shape[2])], dim=2)


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    q_cos, q_sin = rope_angles(q_positions + 1, q.shape[-1], base)
    k_cos, k_sin = rope_angles(k_positions + 1, k.shape[-1], base)
    scores = apply_rope(k, k_cos, k_sin) @ apply_rope(q, q_cos, q_sin).transpose(-1, -2)
    return (scores / math.sqrt(q.shape[-1])).transpose(-1, -2)
