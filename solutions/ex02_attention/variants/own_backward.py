"""Unusual: an autograd function with a backward pass written by hand."""

import math

import torch


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        weights = torch.softmax(attention_scores(q, k), -1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v, weights

    @staticmethod
    def backward(ctx, to_out, to_weights):
        q, k, v, weights = ctx.saved_tensors
        to_weights = to_weights + to_out @ v.mT
        to_scores = weights * (to_weights - (weights * to_weights).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        return to_scores @ k, to_scores.mT @ q, weights.mT @ to_out


def attention_scores(q, k):
    return (k @ q.mT).mT / math.sqrt(k.shape[-1])


def attention(q, k, v):
    return _Attention.apply(q, k, v)
