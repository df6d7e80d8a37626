"""Unusual: tables of weights that are allocated first and filled row by row; the answer is written into place as well."""

import math

import torch


def causal_mask(T):
    mask = torch.empty(T, T, dtype=torch.bool).fill_(False)
    rows, columns = torch.tril_indices(T, T)
    mask[rows, columns] = True
    return mask


def padding_mask(ids, pad_id):
    mask = torch.ones(ids.shape[0], 1, 1, ids.shape[1], dtype=torch.bool)
    mask[:, 0, 0][ids.eq(pad_id)] = False
    return mask


def combine_masks(*masks):
    full = torch.broadcast_shapes(*[mask.shape for mask in masks])
    out = torch.ones(full, dtype=torch.bool)
    for mask in masks:
        out &= mask
    return out


def masked_softmax(scores, mask):
    weights = torch.zeros_like(scores)
    allowed = mask.expand(*mask.shape[:-2], scores.shape[-2], scores.shape[-1])
    for t in range(scores.shape[-2]):
        keys = allowed[..., t, :]
        row = scores[..., t, :].float().masked_fill(~keys, -1e30)
        row = (row - row.amax(-1, keepdim=True)).exp() * keys
        weights[..., t, :] = (row / row.sum(-1, keepdim=True).clamp_min(1e-20)).to(scores.dtype)
    return weights


def causal_attention(q, k, v, padding=None):
    B, H, T, D = q.shape
    weights = q.new_zeros(B, H, T, T)
    for t in range(T):
        scores = torch.einsum("bhd,bhsd->bhs", q[:, :, t] / math.sqrt(D), k[:, :, : t + 1])
        seen = torch.ones(1, 1, 1, t + 1, dtype=torch.bool) if padding is None else padding[..., : t + 1]
        weights[:, :, t, : t + 1] = masked_softmax(scores.unsqueeze(2), seen).squeeze(2)
    out = torch.zeros(B, H, T, v.shape[3], dtype=v.dtype)
    out += weights @ v
    return out
