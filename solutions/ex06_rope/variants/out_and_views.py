"""Unusual: integer tricks for the exponents, a table longer than needed for whole positions, results that are views."""

import math

import torch


def rotate_half(x):
    if x.shape[-1] % 2 != 0:
        raise ValueError("last dim " + str(x.shape[-1]) + " is odd")
    flipped = x.unflatten(-1, (2, -1)).flip(-2)
    return torch.cat([flipped[..., :1, :] * -1, flipped[..., 1:, :]], dim=-2).reshape(x.shape)


def rope_angles(positions, head_dim, base=10000.0):
    if head_dim % 2 != 0:
        raise ValueError("head_dim " + str(head_dim) + " is odd")
    theta = (1.0 / base) ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    if not positions.is_floating_point() and int(positions.min()) >= 0:
        table = torch.arange(int(positions.max()) + 1)[:, None] * theta
        angles = table[positions.long()]
    else:
        angles = positions.to(torch.float32)[:, None] * theta
    both = torch.stack((angles, angles), dim=0)  # [2, T, D/2]
    return tuple(f(both).transpose(0, 1).reshape(len(positions), head_dim) for f in (torch.cos, torch.sin))


def apply_rope(x, cos, sin):
    time_first = x.permute(2, 0, 1, 3).to(cos.dtype)
    turned = time_first * cos[:, None, None] + rotate_half(time_first) * sin[:, None, None]
    return turned.permute(1, 2, 0, 3)


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    wide = torch.promote_types(q.dtype, torch.float32)
    q = apply_rope(q, *rope_angles(q_positions, q.shape[-1], base))
    k = apply_rope(k, *rope_angles(k_positions, k.shape[-1], base))
    q, k = q / math.sqrt(math.sqrt(q.shape[-1])), k / math.sqrt(math.sqrt(k.shape[-1]))
    return torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).unflatten(0, q.shape[:2]).to(wide)
