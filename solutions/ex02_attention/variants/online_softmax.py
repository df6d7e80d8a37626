"""Unusual: keys arrive one by one; a running maximum and a running sum make the softmax, in float64 inside."""

import math

import torch


def attention_scores(q, k):
    columns = [(q.double() * key.double().unsqueeze(-2)).sum(-1) for key in k.unbind(dim=-2)]
    return (torch.stack(columns, dim=-1) / math.sqrt(q.shape[-1])).to(q.dtype)


def attention(q, k, v):
    width = q.shape[-1]
    largest = torch.full(q.shape[:-1], -math.inf, dtype=torch.float64)
    total = torch.zeros(q.shape[:-1], dtype=torch.float64)
    mixed = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=torch.float64)
    seen = []
    for key, value in zip(k.double().unbind(-2), v.double().unbind(-2)):
        score = (q.double() * key[..., None, :]).sum(-1) / width**0.5
        seen.append(score)
        now = torch.maximum(largest, score)
        keep, fresh = (largest - now).exp(), (score - now).exp()
        total = total * keep + fresh
        mixed = mixed * keep[..., None] + fresh[..., None] * value[..., None, :]
        largest = now
    weights = torch.stack([(score - largest).exp() / total for score in seen], dim=-1)
    return (mixed / total[..., None]).to(v.dtype), weights.to(q.dtype)
