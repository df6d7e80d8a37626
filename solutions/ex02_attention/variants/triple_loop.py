"""Number by number: a loop over queries, over keys, over channels."""

import math

import torch
from torch import Tensor


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    rows = []
    for t in range(q.shape[-2]):
        row = []
        for s in range(k.shape[-2]):
            total = torch.zeros_like(q[..., t, 0])  # [...]
            for d in range(q.shape[-1]):
                total = total + q[..., t, d] * k[..., s, d]
            row.append(total / math.sqrt(q.shape[-1]))
        rows.append(torch.stack(row, dim=-1))  # [..., S]
    return torch.stack(rows, dim=-2)  # [..., T, S]


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = attention_scores(q, k)  # [..., T, S]
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    total = torch.zeros_like(powers[..., 0])  # [..., T]
    out = torch.zeros_like(powers[..., :1] * v[..., :1, :])  # [..., T, E]
    for s in range(k.shape[-2]):
        total = total + powers[..., s]
        out = out + powers[..., s : s + 1] * v[..., s : s + 1, :]
    return out / total.unsqueeze(-1), powers / total.unsqueeze(-1)
