"""Unusual: everything inside is float32 (a float64 input loses digits on the way), and the dtype is turned back at the end."""

import torch


def attention_scores(q, k):
    return _scores(q, k).to(q.dtype)


def attention(q, k, v):
    weights = torch.exp(_scores(q, k) - torch.logsumexp(_scores(q, k), dim=-1, keepdim=True))
    return (weights @ v.float()).type_as(v), weights.type_as(q)


def _scores(q, k):
    scale = torch.rsqrt(torch.tensor(float(k.shape[-1])))
    return q.float().matmul(k.float().swapaxes(-1, -2)) * scale
