"""Unusual: an additive bias, a constant on allowed places and -1e4 on blocked ones; masks compared from index grids."""

import functools
import math

import torch


def causal_mask(T):
    index = torch.arange(T)
    return index[None, :] <= index[:, None]


def padding_mask(ids, pad_id):
    batch, length = ids.shape
    return ids.ne(pad_id).reshape(batch, 1, 1, length)


def combine_masks(*masks):
    return functools.reduce(torch.logical_and, masks)


def masked_softmax(scores, mask):
    bias = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(mask.logical_not(), -1e4) + 3
    weights = torch.nn.functional.softmax(scores + bias, dim=-1)
    return weights * mask


def causal_attention(q, k, v, padding=None):
    q = q * q.size(-1) ** -0.5
    mask = causal_mask(q.size(2))[None, None]
    mask = mask if padding is None else combine_masks(mask, padding)
    return torch.einsum("bhts,bhse->bhte", masked_softmax(torch.einsum("bhtd,bhsd->bhts", q, k), mask), v)
