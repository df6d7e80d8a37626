"""ex04: who may look at whom, and why the mask comes before the softmax.

Letters: B batch, H heads, T query length, S key length, D width of a query or key, E width of a value.

Every mask here is boolean and True means "may attend", as in F.scaled_dot_product_attention. Beware:
nn.MultiheadAttention and nn.TransformerEncoder use the opposite, there True means "blocked".
"""

import math

import torch
from torch import Tensor


def causal_mask(T: int) -> Tensor:
    """Bool [T, T]: query t (row) may attend to key j (column) if j <= t, itself included. T may be 1."""
    raise NotImplementedError("ex04: causal_mask is not implemented yet")


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Bool [B, 1, 1, T] from integer `ids [B, T]`: True where the key is a real token, False where its id is `pad_id`.

    The two axes of size 1 stand for heads and queries: all of them are kept from the same keys.
    """
    raise NotImplementedError("ex04: padding_mask is not implemented yet")


def combine_masks(*masks: Tensor) -> Tensor:
    """A key may be attended only where every mask allows it. One mask or more, each broadcastable to [B, H, T, T].

    The answer is boolean and broadcastable to [B, H, T, T] (it need not have that size). The masks handed in stay as
    they are.
    """
    raise NotImplementedError("ex04: combine_masks is not implemented yet")


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax of `scores [B, H, T, S]` over the allowed keys (last axis): weights [B, H, T, S], dtype of the scores.

    `mask` is bool and broadcasts to the scores: [T, S], [B, 1, 1, S], [B, 1, T, S], ...; T and S may differ.
    - In each row the weights of the allowed keys sum to 1, those of the blocked keys are exactly 0.
    - A row with no allowed key gives all zeros, never NaN, and its scores get a gradient of zeros, never NaN.
    - It stays true when a blocked key scores +200, or when all allowed keys score -300.
    - float16 and bfloat16 work too. -1e9 does not fit into float16 (its largest number is 65504): ask
      torch.finfo(scores.dtype), or use -inf.
    - Do not blow the mask up to B*H*T*S elements (no expand + clone, no repeat, no 0/1 copy of that size): let it
      broadcast.
    - Scores and mask stay as they are.
    """
    raise NotImplementedError("ex04: masked_softmax is not implemented yet")


def causal_attention(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None = None) -> Tensor:
    """Causal scaled dot-product attention: q, k [B, H, T, D] and v [B, H, T, E] give [B, H, T, E].

    Scores are scaled by 1/sqrt(D). Query t sees the keys j <= t and, with `padding` (bool [B, 1, 1, T], True = real
    token), only the real ones among them. A query that sees no key at all (a pad at the very start) gives zeros. The
    answer has the dtype of the inputs, half precision included. No mask of B*H*T*T elements is made.
    """
    raise NotImplementedError("ex04: causal_attention is not implemented yet")
