"""Unusual: written for one query against all keys, and lifted over every other axis with vmap; keyword-free lambdas."""

import torch
from torch.func import vmap

_one_score = lambda query, key: query.dot(key) / query.numel() ** 0.5
_one_row = vmap(_one_score, in_dims=(None, 0))
_matrix = vmap(_one_row, in_dims=(0, None))


def _lifted(function, axes, *tensors):
    for _ in range(axes):
        function = vmap(function)
    return function(*tensors)


attention_scores = lambda q, k: _lifted(_matrix, q.dim() - 2, q, k)


def attention(q, k, v):
    weights = _lifted(lambda a, b: torch.softmax(_matrix(a, b), -1), q.dim() - 2, q, k)
    return weights @ v, weights
