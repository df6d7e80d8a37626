"""ex05: residual, LayerNorm, Pre-Norm.

Letters: B batch, T positions, C model width, F feed-forward width. The library's own layer norm is not allowed anywhere
in this file, under any name: normalise by hand.
Leave the tensors you are given as they were, and answer in the dtype they came in. They may be anything a tensor can
be: a view, transposed, expanded, with or without `requires_grad`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LayerNorm(nn.Module):
    """Standardize every vector of C numbers by itself, then scale and shift it.

    Parameters: `weight` [C], all ones at the start, and `bias` [C], all zeros at the start.
    The variance is the biased one (divide by C, not by C - 1) and `eps` is added to it under the root.
    The same numbers come out in train and in eval mode.
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        raise NotImplementedError("ex05: LayerNorm.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [..., C] -> [..., C], with any number of leading axes; only the last axis is averaged over."""
        raise NotImplementedError("ex05: LayerNorm.forward is not implemented yet")


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, applied to every position by itself.

    Submodules: `up` (`nn.Linear`, C to F) and `down` (`nn.Linear`, F to C), both with a bias.
    The activation is the exact GELU (the one with the error function), not its tanh approximation.
    Dropout comes last: in train mode each element of the result is set to zero with probability `dropout` and the
    others are divided by `1 - dropout`, so that the mean stays; in eval mode nothing is dropped.
    """

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        raise NotImplementedError("ex05: FeedForward.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]."""
        raise NotImplementedError("ex05: FeedForward.forward is not implemented yet")


class PreNormBlock(nn.Module):
    """A residual block that normalises before its sublayer: `x + ffn(norm(x))`.

    Submodules: `norm` (the `LayerNorm` of this file, with its default eps) and `ffn` (the `FeedForward` of this file,
    which gets `dropout`). What is added at the end is `x` itself, untouched by the norm.
    """

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        raise NotImplementedError("ex05: PreNormBlock.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]. (What is added is `x` itself.)"""
        raise NotImplementedError("ex05: PreNormBlock.forward is not implemented yet")
