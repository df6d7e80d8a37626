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
    raise NotImplementedError("ex07: fused_attention is not implemented yet")


def attention_error(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> float:
    """The largest absolute difference between `fused_attention` and an attention that you write by hand here.

    Both sides get the same arguments, and `causal` means the same as above. A Python float, measured at every call: it
    is as small as a rounding error, and becomes large as soon as one element of the kernel's result is wrong.
    """
    raise NotImplementedError("ex07: attention_error is not implemented yet")
