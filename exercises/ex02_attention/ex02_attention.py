"""ex02: one attention head, written by hand.

Letters: T queries, S keys (and as many values), D the width of a query and of a key, E the width of a value.
T may differ from S, and E from D. The dots in a shape stand for any number of leading axes (none, a batch, batch
and heads): write for the last two axes and the rest follows.

By hand means by hand: no `F.scaled_dot_product_attention` and no `nn.MultiheadAttention`.
Leave the tensors you are given as they were, and answer in the dtype they came in. They may be anything a tensor can
be: a view, transposed, expanded, with or without `requires_grad`.
"""

import math

import torch
from torch import Tensor


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """How well every query matches every key: their dot product divided by the square root of D.

    Args:
        q: queries, [..., T, D]
        k: keys, [..., S, D]

    Returns:
        scores, [..., T, S]: row t belongs to query t, column s to key s. No softmax yet.
    """
    raise NotImplementedError("ex02: attention_scores is not implemented yet")


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Every query takes a weighted mean of the values; the weights come from its scores.

    Args:
        q: queries, [..., T, D]
        k: keys, [..., S, D]
        v: values, [..., S, E]

    Returns:
        out, [..., T, E], and weights, [..., T, S]. The weights of one query are >= 0 and sum to 1 over its S keys,
        also when scores are as large as 10,000. Gradients flow back to q, k and v through both results.
        There is no mask here: every query may look at every key.
    """
    raise NotImplementedError("ex02: attention is not implemented yet")
