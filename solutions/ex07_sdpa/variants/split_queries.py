"""Unusual: queries in chunks, masks from comparisons, nothing special for blind queries (this kernel gives zeros)."""

import torch
from torch import nn


def fused_attention(q, k, v, *, causal=False, padding=None):
    T, S = q.shape[-2], k.shape[-2]
    pieces = []
    for start in range(0, T, 4):
        chunk = q[..., start : start + 4, :]
        mask = torch.ones(chunk.shape[-2], S, dtype=torch.bool, device=q.device)
        if causal:
            last = torch.arange(start, start + chunk.shape[-2], device=q.device) + S - T
            mask = torch.le(torch.arange(S, device=q.device), last.unsqueeze(1))
        if padding is not None:
            mask = mask * padding
        out = nn.functional.scaled_dot_product_attention(chunk, k, v, attn_mask=mask)
        pieces.append(torch.nan_to_num(out) if padding is not None else out)
    return torch.cat(pieces, dim=-2)


def attention_error(q, k, v, *, causal=False):
    T, S = q.shape[-2], k.shape[-2]
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1).div(q.shape[-1] ** 0.5)
    scores = torch.where(torch.ones_like(scores).tril(S - T) == 1, scores, -1e4) if causal else scores
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    by_hand = (e.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2) / e.sum(-1, keepdim=True)
    return abs(fused_attention(q, k, v, causal=causal) - by_hand).amax().item()
