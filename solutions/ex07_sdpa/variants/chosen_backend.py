"""Unusual: the backend is chosen, the kernel runs under a checkpoint, blind rows are cut out and put back as zeros."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


class Kernel(torch.nn.Module):
    def forward(self, q, k, v, mask):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=mask)


def visible(q, k, causal, padding):
    """[B, 1, T, S]: who sees whom."""
    age_q = torch.arange(q.shape[2] - 1, -1, -1, device=q.device)  # the last query has age 0
    age_k = torch.arange(k.shape[2] - 1, -1, -1, device=q.device)
    seen = (age_k[None, :] >= age_q[:, None]) | (not causal)
    seen = seen[None, None].expand(q.shape[0], 1, -1, -1)
    return seen if padding is None else seen.mul(padding)


def fused_attention(q, k, v, *, causal=False, padding=None):
    mask = visible(q, k, causal, padding)
    sees = mask.any(-1)[:, 0]  # [B, T]
    kernel = Kernel()
    out = q.new_zeros(*q.shape[:3], v.shape[-1])
    for b in range(q.shape[0]):
        rows = sees[b].nonzero()[:, 0]
        if len(rows):
            part = checkpoint(
                kernel, q[b : b + 1, :, rows], k[b : b + 1], v[b : b + 1], mask[b : b + 1, :, rows], use_reentrant=False
            )
            heads = torch.arange(q.shape[1], device=q.device)[:, None]
            out = out.index_put((torch.tensor(b, device=q.device), heads, rows[None]), part[0])
    return out


def attention_error(q, k, v, *, causal=False):
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    scores = scores + visible(q, k, causal, None).logical_not() * -1e9
    error = (torch.softmax(scores, dim=-1) @ v - fused_attention(q, k, v, causal=causal)).abs()
    return torch.linalg.vector_norm(error, ord=float("inf")).item()
