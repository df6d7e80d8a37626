"""Unusual: a cache of tables keyed by everything that matters; rolled channels with a sign row; pairs written in place."""

import torch

CACHE = {}


def rotate_half(x):
    D = x.shape[-1]
    if D // 2 * 2 != D:
        raise ValueError(f"D = {D}")
    sign = torch.ones(D, dtype=x.dtype)
    sign[: D // 2] = -1
    return torch.roll(x, D // 2, dims=-1) * sign


def rope_angles(positions, head_dim, base=10000.0):
    if head_dim % 2 != 0:
        raise ValueError(f"{head_dim = }")
    key = (tuple(positions.tolist()), head_dim, base)
    if key not in CACHE:
        exponent = torch.linspace(0, -2 * (head_dim // 2 - 1) / head_dim, head_dim // 2, dtype=torch.float64)
        theta = torch.pow(torch.tensor(base, dtype=torch.float64), exponent)
        angles = torch.tile(positions.double().unsqueeze(1) * theta.unsqueeze(0), (1, 2))
        CACHE[key] = angles.cos().float(), angles.sin().float()
    cos, sin = CACHE[key]
    return cos.clone(), sin.clone()


def apply_rope(x, cos, sin):
    half = x.shape[-1] // 2
    out = torch.empty_like(x)
    a, b = x[..., :half], x[..., half:]
    out[..., :half] = a * cos[:, :half] - b * sin[:, :half]
    out[..., half:] = b * cos[:, half:] + a * sin[:, half:]
    return out


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k = (
        apply_rope(x.to(wide), *rope_angles(positions, x.shape[-1], base))
        for x, positions in ((q, q_positions), (k, k_positions))
    )
    return torch.stack([q[:, h] @ k[:, h].mT for h in range(q.shape[1])], dim=1) / q.shape[-1] ** 0.5
