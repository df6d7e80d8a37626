"""Unusual: loops over batch rows, heads and queries; classes and lambdas instead of functions; a message in Chinese."""

import torch


class split_heads:
    def __new__(cls, x, num_heads):
        if x.shape[-1] % num_heads:
            raise ValueError(f"宽度 {x.shape[-1]} 不能被头数 {num_heads} 整除")
        width = x.shape[-1] // num_heads
        return torch.stack([torch.stack(row.split(width, -1)) for row in x])


merge_heads = lambda x: torch.stack([torch.hstack(tuple(row)) for row in x])


def multi_head_attention(qkv, num_heads):
    out = []
    for row in qkv:
        q, k, v = row.hsplit(3)
        q, k, v = (split_heads(part[None], num_heads)[0] for part in (q, k, v))
        heads = []
        for h in range(num_heads):
            weights = torch.stack([(k[h].mv(query) / query.numel() ** 0.5).softmax(0) for query in q[h]])
            heads.append(weights @ v[h])
        out.append(torch.cat(heads, dim=1))
    return torch.stack(out)


score_count = lambda B, T, num_heads: num_heads * B * T * T
