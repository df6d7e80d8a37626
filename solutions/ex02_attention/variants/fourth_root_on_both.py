"""Unusual: the fourth root of D divides queries and keys alike; the softmax is written out and shifts by the maximum."""

import torch


def attention_scores(q, k):
    root = q.size(-1) ** 0.25
    return torch.matmul(q / root, torch.movedim(k / root, -1, -2))


def attention(q, k, v):
    scores = attention_scores(q, k)
    scores = scores - scores.amax(dim=-1, keepdim=True).detach()
    weights = scores.exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return torch.matmul(weights, v), weights
