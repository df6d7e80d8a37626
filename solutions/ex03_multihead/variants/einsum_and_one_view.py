"""Unusual: qkv becomes one tensor of five axes, and einsum does both products; the scale is put on the queries."""

import torch


def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"num_heads={num_heads} must divide {x.shape[-1]}")
    return torch.einsum("bthd->bhtd", x.unflatten(-1, (num_heads, -1)))


def merge_heads(x):
    return torch.einsum("bhtd->bthd", x).flatten(2)


def multi_head_attention(qkv, num_heads):
    width = qkv.shape[-1] // 3
    if width % num_heads:
        raise ValueError(f"{width} channels, {num_heads} heads")
    five = qkv.reshape(*qkv.shape[:2], 3, num_heads, -1)
    q, k, v = five.unbind(2)  # each [B, T, H, D]
    weights = torch.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", weights, v).reshape(*qkv.shape[:2], width)


def score_count(B, T, num_heads):
    return torch.empty(B, num_heads, T, T, device="meta").numel()
