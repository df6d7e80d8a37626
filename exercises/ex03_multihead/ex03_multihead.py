"""ex03: several heads side by side: split, attend, merge.

Letters: B batch, T positions, H heads, C the model width, D = C / H the width of one head.
Head h owns the channels h*D up to (h+1)*D; merging puts them back where they were. There is no mask here, and
`F.scaled_dot_product_attention` is allowed.
Leave the tensors you are given as they were, and answer in the dtype they came in. They may be anything a tensor can
be: a view, transposed, expanded, with or without `requires_grad`.
"""

import math

import torch
from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Give every head its own channels.

    Args:
        x: [B, T, C]
        num_heads: H

    Returns:
        [B, H, T, D]: entry [b, h, t, d] is x[b, t, h*D + d].

    Raises:
        ValueError: H does not divide C. The message names H or C with its value.
    """
    raise NotImplementedError("ex03: split_heads is not implemented yet")


def merge_heads(x: Tensor) -> Tensor:
    """Undo `split_heads`: put the heads' channels side by side again.

    Args:
        x: [B, H, T, D]

    Returns:
        [B, T, C] with C = H*D.
    """
    raise NotImplementedError("ex03: merge_heads is not implemented yet")


def multi_head_attention(qkv: Tensor, num_heads: int) -> Tensor:
    """Scaled dot-product attention in every head by itself, then merged.

    Args:
        qkv: queries, keys and values side by side, [B, T, 3C]: the first third of the last axis is q, the second k,
            the last v. Each third is then split into heads.
        num_heads: H

    Returns:
        [B, T, C]. Every position looks at every position of its own batch row. The scores of a head are divided by
        the square root of its own width D.

    Raises:
        ValueError: H does not divide C. The message names H or C with its value.
    """
    raise NotImplementedError("ex03: multi_head_attention is not implemented yet")


def score_count(B: int, T: int, num_heads: int) -> int:
    """How many numbers the score tensor of `multi_head_attention` holds, over the whole batch and all heads.

    Think first: what happens to it when 4 heads become 8 and C stays the same? And when T doubles?

    Returns:
        a whole number (an int).
    """
    raise NotImplementedError("ex03: score_count is not implemented yet")
