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
        # BEGIN SOLUTION
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))  # [C]
        self.bias = nn.Parameter(torch.zeros(dim))  # [C]
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x [..., C] -> [..., C], with any number of leading axes; only the last axis is averaged over."""
        # BEGIN SOLUTION
        centred = x - x.mean(dim=-1, keepdim=True)  # [..., C]
        variance = centred.square().mean(dim=-1, keepdim=True)  # [..., 1]  biased: a plain mean of squares
        normed = centred / torch.sqrt(variance + self.eps)  # [..., C]  mean 0, variance 1
        return (normed * self.weight + self.bias).to(x.dtype)  # [..., C]
        # END SOLUTION


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, applied to every position by itself.

    Submodules: `up` (`nn.Linear`, C to F) and `down` (`nn.Linear`, F to C), both with a bias.
    The activation is the exact GELU (the one with the error function), not its tanh approximation.
    Dropout comes last: in train mode each element of the result is set to zero with probability `dropout` and the
    others are divided by `1 - dropout`, so that the mean stays; in eval mode nothing is dropped.
    """

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]."""
        # BEGIN SOLUTION
        hidden = F.gelu(self.up(x))  # [B, T, F]
        return self.dropout(self.down(hidden))  # [B, T, C]
        # END SOLUTION


class PreNormBlock(nn.Module):
    """A residual block that normalises before its sublayer: `x + ffn(norm(x))`.

    Submodules: `norm` (the `LayerNorm` of this file, with its default eps) and `ffn` (the `FeedForward` of this file,
    which gets `dropout`). What is added at the end is `x` itself, untouched by the norm.
    """

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.norm = LayerNorm(dim)
        self.ffn = FeedForward(dim, hidden, dropout)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]. (What is added is `x` itself.)"""
        # BEGIN SOLUTION
        return x + self.ffn(self.norm(x))  # [B, T, C]
        # END SOLUTION
