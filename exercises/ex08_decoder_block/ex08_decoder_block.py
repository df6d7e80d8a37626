"""ex08: assemble a decoder block, then count its parameters.

Letters: B batch, T query length, S key length (here S = T), C model width, H heads, D = C / H head width.
Masks are boolean and True means "may attend", as in F.scaled_dot_product_attention
(nn.MultiheadAttention and nn.TransformerEncoder mean the opposite by True).
Nothing of the library is forbidden here. Give the modules exactly the names below: the grader writes its
own weights into them, by name. Inputs may be non-contiguous, and they must stay as they were.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class CausalSelfAttention(nn.Module):
    """Multi-head self-attention in which position t attends to the positions 0 .. t and to no later one.

    qkv   nn.Linear from C to 3C, with bias. q, k and v are the first, second and third third of what it
          gives; head h is the block of channels h*D:(h+1)*D of each third.
    proj  nn.Linear from C to C, with bias, applied to the merged heads.

    Scores are scaled by 1 / sqrt(D). No dropout, so train and eval mode give the same.
    `dim` is C and `num_heads` is H. When H does not divide C: ValueError, with one of the two numbers in its message.
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        raise NotImplementedError("ex08: CausalSelfAttention.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C], for any T >= 1."""
        raise NotImplementedError("ex08: CausalSelfAttention.forward is not implemented yet")


class DecoderBlock(nn.Module):
    """A pre-norm decoder block: x plus attention of the normed x, then that plus the MLP of its norm.

    n1    nn.LayerNorm over C (eps 1e-5), in front of the attention
    attn  CausalSelfAttention
    n2    nn.LayerNorm over C (eps 1e-5), in front of the MLP
    mlp   nn.Sequential of nn.Linear from C to 4C, exact GELU (nn.GELU()), nn.Linear from 4C to C, biases everywhere

    No dropout. When H does not divide C: ValueError, with one of the two numbers in its message.
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        raise NotImplementedError("ex08: DecoderBlock.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C], for any T >= 1."""
        raise NotImplementedError("ex08: DecoderBlock.forward is not implemented yet")


def count_parameters(module: nn.Module, trainable_only: bool = True) -> int:
    """How many numbers the parameters of any nn.Module hold, as an int.

    A parameter that two names share (a tied weight) is counted once. A frozen parameter
    (requires_grad=False) is counted only with trainable_only=False. Buffers are never counted.
    """
    raise NotImplementedError("ex08: count_parameters is not implemented yet")


def decoder_block_parameters(dim: int) -> int:
    """The number of parameters of DecoderBlock(dim, H), as a closed form in C = dim. Does H matter?"""
    raise NotImplementedError("ex08: decoder_block_parameters is not implemented yet")
