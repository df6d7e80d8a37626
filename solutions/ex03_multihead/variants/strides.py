"""Unusual: as_strided with the tensor's own strides splits, a contiguous copy merges, float64 inside the attention."""

import torch


def split_heads(x, num_heads):
    b, t, c = x.shape
    if c % num_heads != 0:
        raise ValueError(f"{c} % {num_heads} = {c % num_heads}")
    d = c // num_heads
    sb, st, sc = x.stride()
    return x.as_strided((b, num_heads, t, d), (sb, d * sc, st, sc), x.storage_offset())


def merge_heads(x):
    rows = x.permute(0, 2, 1, 3).contiguous()
    return rows.view(rows.size(0), rows.size(1), -1)


def multi_head_attention(qkv, num_heads):
    c = qkv.size(-1) // 3
    q, k, v = [split_heads(qkv.narrow(-1, i * c, c), num_heads).to(torch.float64) for i in range(3)]
    root = q.size(-1) ** 0.25
    weights = torch.exp(torch.log_softmax((q / root) @ (k / root).mT, dim=-1))
    return merge_heads(weights @ v).to(qkv.dtype)


def score_count(B, T, num_heads):
    return int(torch.tensor([B, num_heads, T, T]).prod())
