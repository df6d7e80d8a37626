"""Unusual: the kernel is mapped over the batch with vmap, queries are scaled in advance, the maximum is Python's."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa


def fused_attention(q, k, v, *, causal=False, padding=None):
    T, S = q.shape[-2], k.shape[-2]
    allowed = torch.ones(q.shape[0], T, S, dtype=torch.bool, device=q.device)
    if causal:
        allowed = torch.tril(allowed, S - T)
    if padding is not None:
        allowed = torch.logical_and(allowed, padding[:, 0])
    blind = allowed.sum(-1, keepdim=True) == 0

    def one_row(q, k, v, allowed):
        return sdpa(q, k, v, attn_mask=allowed, scale=1.0)

    out = torch.vmap(one_row)(q / math.sqrt(q.shape[-1]), k, v, allowed | blind)
    return out * (~blind)[:, None].to(out.dtype)


def attention_error(q, k, v, *, causal=False):
    root = q.shape[-1] ** 0.25  # the fourth root on either factor
    s = torch.matmul(q / root, (k / root).transpose(-1, -2))
    if causal:
        T, S = s.shape[-2:]
        s[..., torch.ones(T, S, device=s.device).triu(S - T + 1) > 0] = torch.finfo(s.dtype).min
    difference = fused_attention(q, k, v, causal=causal).sub(torch.matmul(s.softmax(dim=-1), v))
    return max(abs(number) for number in difference.flatten().tolist())
