"""Unusual: an autograd function with a backward pass written by hand; a closure for the heads."""

import torch


def _heads(number):
    def cut(x):
        if x.shape[-1] % number:
            raise ValueError(f"{number} does not divide {x.shape[-1]}")
        return x.reshape(x.shape[0], x.shape[1], number, -1).swapaxes(1, 2)

    return cut


def split_heads(x, num_heads):
    return _heads(num_heads)(x)


def merge_heads(x):
    return x.swapaxes(2, 1).flatten(-2, -1)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        weights = torch.softmax(q @ k.mT * k.shape[-1] ** -0.5, -1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        into = grad @ v.mT
        scores = weights * (into - (weights * into).sum(-1, keepdim=True)) * k.shape[-1] ** -0.5
        return scores @ k, scores.mT @ q, weights.mT @ grad


def multi_head_attention(qkv, num_heads):
    return merge_heads(_Attend.apply(*map(_heads(num_heads), torch.split(qkv, qkv.shape[-1] // 3, dim=-1))))


def score_count(B, T, num_heads):
    return T * num_heads * T * B
