"""Unusual: one head after the other: slices for splitting, stack, cat for merging, and bmm in between."""

import torch


def split_heads(x, num_heads):
    width, rest = divmod(x.size(2), num_heads)
    if rest:
        raise ValueError("cannot make %d heads" % num_heads)
    return torch.stack([x[..., h * width : h * width + width] for h in range(num_heads)], dim=1)


def merge_heads(x):
    return torch.cat(list(x.unbind(1)), dim=-1)


def multi_head_attention(qkv, num_heads):
    q, k, v = (split_heads(part, num_heads).unbind(1) for part in qkv.tensor_split(3, dim=2))
    heads = []
    for query, key, value in zip(q, k, v):
        scores = torch.bmm(query, key.transpose(1, 2)).mul(query.size(2) ** -0.5)
        heads.append(torch.bmm((scores - scores.logsumexp(-1, keepdim=True)).exp(), value))
    return torch.cat(heads, dim=2)


def score_count(B, T, num_heads):
    total = 0
    for _ in range(B):
        total += sum(T * T for _ in range(num_heads))
    return total
