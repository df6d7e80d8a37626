"""Unusual: one explicit D x D rotation matrix for each position; tables computed in float64."""

import torch


def rotate_half(x):
    D = x.shape[-1]
    if D % 2 == 1:
        raise ValueError("odd width: %d" % D)
    swap = torch.zeros(D, D, dtype=x.dtype)
    for n in range(D // 2):
        swap[n, n + D // 2] = -1
        swap[n + D // 2, n] = 1
    return x @ swap.T


def rope_angles(positions, head_dim, base=10000.0):
    if head_dim % 2 == 1:
        raise ValueError("odd head_dim: %d" % head_dim)
    rows = []
    for p in positions.tolist():
        half = [p * base ** (-2 * n / head_dim) for n in range(head_dim // 2)]
        rows.append(half + half)
    angles = torch.tensor(rows, dtype=torch.float64)
    return torch.cos(angles).float(), torch.sin(angles).float()


def apply_rope(x, cos, sin):
    T, D = cos.shape
    half = D // 2
    turn = torch.diag_embed(cos)
    upper = torch.diag_embed(sin[:, :half], offset=half)
    lower = torch.diag_embed(sin[:, half:], offset=-half)
    turn = turn - upper + lower  # [T, D, D]
    return torch.einsum("tij,bhtj->bhti", turn.double(), x.double()).to(x.dtype)


def rope_attention_scores(q, k, q_positions, k_positions, base=10000.0):
    rotated = [apply_rope(x, *rope_angles(p, x.shape[-1], base)) for x, p in ((q, q_positions), (k, k_positions))]
    return torch.matmul(rotated[0], rotated[1].mT) / q.shape[-1] ** 0.5
