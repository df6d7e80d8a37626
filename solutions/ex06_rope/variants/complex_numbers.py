"""Unusual: a pair is a complex number and the rotation a product with e^(i angle); half inputs come back in half."""

import math

import torch


def rotate_half(x):
    if x.shape[-1] & 1:
        raise ValueError(f"cannot halve an axis of {x.shape[-1]}")
    return from_complex(to_complex(x) * 1j).to(x.dtype)


def to_complex(x):
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    a, b = x.tensor_split(2, dim=-1)
    return torch.complex(a.contiguous(), b.contiguous())


def from_complex(z):
    return torch.cat([z.real, z.imag], -1)


def rope_angles(positions, head_dim, base=10000.0):
    if head_dim % 2:
        raise ValueError(head_dim)
    theta = torch.exp(torch.arange(0, head_dim, 2).float() * (-math.log(base) / head_dim))
    turn = torch.polar(torch.ones(()), torch.outer(positions.float(), theta))
    return turn.real.repeat(1, 2), turn.imag.repeat(1, 2)


def apply_rope(x, cos, sin):
    pairs = x.shape[-1] // 2
    turn = torch.complex(cos[..., :pairs].contiguous(), sin[..., :pairs].contiguous())
    return from_complex(to_complex(x) * turn).to(x.dtype)


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    width = q.size(-1)
    q = apply_rope(q, *rope_angles(q_positions, width, base))
    k = apply_rope(k, *rope_angles(k_positions, width, base))
    return torch.einsum("bhtd,bhsd->bhts", q * width**-0.5, k)
