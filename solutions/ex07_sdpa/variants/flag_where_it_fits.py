"""Unusual: is_causal alone for T == S without padding, an additive mask of the dtype's smallest number otherwise."""

import torch
import torch.nn.functional as F


def fused_attention(q, k, v, *, causal=False, padding=None):
    t, s = q.size(2), k.size(2)
    if padding is None and (not causal or t == s):
        return F.scaled_dot_product_attention(q, k, v, None, 0.0, causal)
    if padding is None and t == 1:
        return F.scaled_dot_product_attention(q, k, v)
    allowed = torch.ones(q.size(0), 1, t, s, dtype=torch.bool, device=q.device)
    if padding is not None:
        allowed = allowed & padding
    if causal:
        rows = torch.arange(s - t, s, device=q.device)[:, None]
        allowed = allowed & (torch.arange(s, device=q.device)[None] <= rows)
    bias = torch.zeros(allowed.shape, dtype=q.dtype, device=q.device)
    bias = bias.masked_fill(allowed.logical_not(), torch.finfo(q.dtype).min)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=0.0, is_causal=False)
    return torch.where(allowed.any(-1, keepdim=True), out, torch.zeros((), dtype=out.dtype, device=out.device))


def attention_error(q, k, v, *, causal=False):
    with torch.no_grad():
        q64, k64, v64 = q.double(), k.double(), v.double()
        t, s = q.size(2), k.size(2)
        hand = torch.empty(q.shape[:-1] + v.shape[-1:], dtype=torch.float64, device=q.device)
        for i in range(t):  # one query at a time, over the keys it sees
            seen = s - t + i + 1 if causal else s
            score = torch.einsum("bhd,bhsd->bhs", q64[:, :, i], k64[:, :, :seen]) * q.size(3) ** -0.5
            hand[:, :, i] = torch.einsum("bhs,bhse->bhe", torch.softmax(score, -1), v64[:, :, :seen])
        return float(torch.max(torch.abs(fused_attention(q, k, v, causal=causal).double() - hand)))
