"""Unusual: compiled by TorchScript; the name of the fused kernel stands in a comment and in code that never runs."""

import warnings

import torch
import torch.nn.functional as F


def _compiled(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases call TorchScript outdated
        return torch.jit.script(function)


@_compiled
def attention_scores(q, k):
    return torch.matmul(q, k.transpose(-2, -1)) / float(q.size(-1)) ** 0.5


@_compiled
def _weights(q, k):
    return torch.softmax(attention_scores(q, k), -1)


def attention(q, k, v, fused=False):
    if fused:  # not in this exercise
        return F.scaled_dot_product_attention(q, k, v), None
    weights = _weights(q, k)
    return weights @ v, weights
