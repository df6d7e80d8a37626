"""Unusual: the scores come from the differences of positions directly, without turning q or k."""

import math

import torch


def rotate_half(x):
    *_, width = x.shape
    if width % 2:
        raise ValueError(f"even width wanted, {width} given")
    a, b = x.unflatten(-1, (2, width // 2)).unbind(-2)
    return torch.stack((-b, a), dim=-2).flatten(-2)


def frequencies(head_dim, base):
    return torch.tensor([base ** (-2.0 * n / head_dim) for n in range(head_dim // 2)])


def rope_angles(positions, head_dim, base=10000.0):
    if head_dim % 2:
        raise ValueError(f"even head_dim wanted, {head_dim} given")
    angles = (positions.unsqueeze(-1) * frequencies(head_dim, base)).tile(2)
    return torch.cos(angles), torch.sin(angles)


def apply_rope(x, cos, sin):
    return torch.addcmul(x * cos, rotate_half(x).to(cos.dtype), sin)


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    width = q.shape[-1]
    distance = q_positions[:, None].float() - k_positions[None, :].float()
    angles = distance[..., None] * frequencies(width, base)
    q1, q2 = q.float().chunk(2, -1)
    k1, k2 = k.float().chunk(2, -1)
    same = q1[:, :, :, None] * k1[:, :, None] + q2[:, :, :, None] * k2[:, :, None]
    cross = q1[:, :, :, None] * k2[:, :, None] - q2[:, :, :, None] * k1[:, :, None]
    scores = (same * angles.cos() + cross * angles.sin()).sum(-1) / math.sqrt(width)
    return scores.to(torch.promote_types(q.dtype, torch.float32))
