"""Unusual: the kernel under another name, PyTorch's own lower-right causal bias, and a key of its own for blind queries."""

import torch
from torch import nn
from torch.nn.attention.bias import causal_lower_right

fused = getattr(nn.functional, "scaled_dot_" + "product_attention")


def fused_attention(q, k, v, *, causal=False, padding=None):
    T, S = q.shape[-2], k.shape[-2]
    if padding is None:
        return fused(q, k, v, attn_mask=causal_lower_right(T, S) if causal else None)
    mask = padding.expand(-1, -1, T, -1)
    if causal:
        mask = mask & torch.ones(T, S, dtype=torch.bool, device=q.device).tril(diagonal=S - T)
    # one more key whose value is zero, which only queries that see nothing else may see
    mask = torch.cat([mask, ~mask.any(-1, keepdim=True)], dim=-1)
    k = torch.cat([k, k.new_zeros(*k.shape[:2], 1, k.shape[-1])], dim=-2)
    v = torch.cat([v, v.new_zeros(*v.shape[:2], 1, v.shape[-1])], dim=-2)
    return fused(q, k, v, mask)


def attention_error(q, k, v, *, causal=False):
    exact = []
    for head in range(q.shape[1]):
        logits = torch.bmm(q[:, head], k[:, head].mT).float() / q.shape[-1] ** 0.5
        if causal:
            T, S = logits.shape[-2:]
            keep = torch.arange(S) <= torch.arange(T)[:, None] + (S - T)
            logits = logits + torch.where(keep.to(logits.device), 0.0, -1e4)
        weights = torch.exp(logits - logits.amax(-1, keepdim=True))
        exact.append(weights / weights.sum(-1, keepdim=True) @ v[:, head].float())
    difference = fused_attention(q, k, v, causal=causal) - torch.stack(exact, dim=1)
    return max(difference.max().item(), -difference.min().item())
