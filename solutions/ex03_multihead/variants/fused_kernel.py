"""Unusual: the fused kernel does the attention (it is allowed here), movedim the axes, and the results are views."""

import math

import torch
import torch.nn.functional as F


def split_heads(x, num_heads):
    if math.gcd(x.shape[-1], num_heads) != num_heads:
        raise ValueError(f"C = {x.shape[-1]} is no multiple of H")
    return x.unflatten(-1, [num_heads, x.shape[-1] // num_heads]).movedim(2, 1)


def merge_heads(x):
    return x.movedim(1, 2).flatten(start_dim=2)


def multi_head_attention(qkv, num_heads):
    q, k, v = split_heads(qkv, 3).unbind(1)
    return merge_heads(F.scaled_dot_product_attention(*(split_heads(x, num_heads) for x in (q, k, v))))


def score_count(B, T, num_heads):
    return math.prod((B, num_heads, T, T))
