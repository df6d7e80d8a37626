"""ex07: the fused attention kernel, `F.scaled_dot_product_attention`.

Letters: B batch, H heads, T queries, S keys, D width of a query or key, E width of a value.
Masks are boolean and True means "may attend", as in `F.scaled_dot_product_attention` itself; this is the opposite of
the masks of `nn.MultiheadAttention` and `nn.TransformerEncoder`.
Leave the tensors you are given as they were, masks included, and answer in the dtype of q. They may be anything a
tensor can be: a view, transposed, expanded, on any device, with or without `requires_grad`.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def fused_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, padding: Tensor | None = None) -> Tensor:
    """q [B, H, T, D], k [B, H, S, D], v [B, H, S, E] -> [B, H, T, E]; E may differ from D.

    The work is done by `F.scaled_dot_product_attention`, which divides by sqrt(D) itself. Nothing is ever dropped.

    causal: for T <= S, aligned at the bottom right: the last query sees every key, the one before it all but the last
        key, and so on. The T queries are the newest tokens of S, as in decoding with a cache. (The kernel's own
        `is_causal` is aligned at the top left: the two agree only for T == S. A mask and `is_causal` must not be in one
        call: that is an error for some inputs, and for others it is not.)
    padding: bool [B, 1, 1, S], True where a key is a real token. With `causal` as well, a query sees a key only if both
        allow it.

    A query with no allowed key gives all zeros, never NaN, in value and gradient.
    """
    # BEGIN SOLUTION
    T, S = q.shape[-2], k.shape[-2]
    mask = padding  # [B, 1, 1, S] or None
    if causal:
        past = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)  # [T, S]
        mask = past if padding is None else past & padding  # [T, S] or [B, 1, T, S]
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v)  # [B, H, T, E]
    blind = ~mask.any(dim=-1, keepdim=True)  # [..., T or 1, 1]  sees no key at all
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | blind)  # a softmax over nothing never happens
    return out.masked_fill(blind, 0.0)  # [B, H, T, E]
    # END SOLUTION


def attention_error(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> float:
    """The largest absolute difference between `fused_attention` and an attention that you write by hand here.

    Both sides get the same arguments, and `causal` means the same as above. A Python float, measured at every call: it
    is as small as a rounding error, and becomes large as soon as one element of the kernel's result is wrong.
    """
    # BEGIN SOLUTION
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, S]
    if causal:
        T, S = scores.shape[-2:]
        future = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)  # [T, S]
        scores = scores.masked_fill(future, -math.inf)  # [B, H, T, S]
    by_hand = scores.softmax(dim=-1) @ v  # [B, H, T, E]
    return (fused_attention(q, k, v, causal=causal) - by_hand).abs().max().item()
    # END SOLUTION
