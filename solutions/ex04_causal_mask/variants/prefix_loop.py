"""Unusual: no causal mask in the attention at all, each query meets only its own prefix; loops over batch and heads."""

import math

import torch


def causal_mask(T):
    return torch.tensor([[j <= t for j in range(T)] for t in range(T)])


def padding_mask(ids, pad_id):
    return torch.tensor([[[[token != pad_id for token in row]]] for row in ids.tolist()])


def combine_masks(*masks):
    out = masks[0].clone()
    for mask in masks[1:]:
        out = out * mask
    return out


def one_row(scores, allowed):
    if not bool(allowed.any()):
        return scores * 0.0
    kept = allowed.nonzero().squeeze(-1)
    return torch.zeros_like(scores).index_put((kept,), torch.softmax(scores[kept], 0))


def masked_softmax(scores, mask):
    mask = mask.broadcast_to(scores.shape)
    B, H, T, S = scores.shape
    rows = [one_row(scores[b, h, t], mask[b, h, t]) for b in range(B) for h in range(H) for t in range(T)]
    return torch.stack(rows).view(B, H, T, S)


def causal_attention(q, k, v, padding=None):
    B, H, T, D = q.shape
    out = torch.empty_like(v)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                past = slice(0, t + 1)
                seen = torch.ones(t + 1, dtype=torch.bool) if padding is None else padding[b, 0, 0, past]
                out[b, h, t] = one_row(k[b, h, past] @ q[b, h, t] / math.sqrt(D), seen) @ v[b, h, past]
    return out
