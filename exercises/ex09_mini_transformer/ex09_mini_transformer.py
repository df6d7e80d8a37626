"""ex09: a whole language model, from token ids to logits.

Letters: B batch, T query length, S key length (here S = T), C = d_model, H = n_heads, D = C / H head width,
V = vocab, F = d_ff feed-forward width.
Two ways of building the stack of blocks are right, choose one:
- by hand, as `self.blocks`: an nn.ModuleList (or nn.Sequential) of pre-norm blocks. `Block` and
  `CausalSelfAttention` below are a frame for that; the names inside a block are up to you.
- with the library, as `self.encoder`: nn.TransformerEncoder over nn.TransformerEncoderLayer(...,
  batch_first=True, norm_first=True), called with a causal mask. Then delete the two frames.
Beware: in a boolean mask of nn.MultiheadAttention and nn.TransformerEncoder True means "must NOT attend";
in F.scaled_dot_product_attention, and everywhere else in this course, True means "may attend".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class CausalSelfAttention(nn.Module):
    """A frame for the way by hand: the attention of ex08. Not graded by itself; change or delete it freely."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        raise NotImplementedError("ex09: CausalSelfAttention.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]"""
        raise NotImplementedError("ex09: CausalSelfAttention.forward is not implemented yet")


class Block(nn.Module):
    """A frame for the way by hand: the pre-norm block of ex08 with F = hidden. Change or delete it freely."""

    def __init__(self, dim: int, num_heads: int, hidden: int) -> None:
        super().__init__()
        raise NotImplementedError("ex09: Block.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]"""
        raise NotImplementedError("ex09: Block.forward is not implemented yet")


class MiniTransformer(nn.Module):
    """Token and position embedding, n_layers pre-norm blocks, a final norm, a linear head: a GPT in small.

    tok_emb   nn.Embedding of V rows and C columns; no id is special
    pos_emb   nn.Embedding of max_len rows and C columns, or a learned nn.Parameter [max_len, C]:
              row t is added to the token at position t
    blocks    n_layers pre-norm blocks of their own weights, by hand -- or `encoder` from the library.
              Attention: H heads, causal, scaled by 1 / sqrt(D). MLP: C to F to C with ReLU or GELU
              (exact or tanh). Every linear layer has a bias, every norm a weight and a bias.
              Dropout is up to you: it is graded in eval mode, or with every dropout set to 0.
    ln        nn.LayerNorm over C, after the last block
    head      nn.Linear from C to V, with bias and a weight of its own (not the one of tok_emb)
    max_len   an attribute: how many positions the model knows

    MiniTransformer() has 21,426 parameters.
    """

    def __init__(
        self,
        vocab: int = 50,
        d_model: int = 32,
        n_heads: int = 4,
        n_layers: int = 2,
        max_len: int = 32,
        d_ff: int = 64,
    ) -> None:
        super().__init__()
        raise NotImplementedError("ex09: MiniTransformer.__init__ is not implemented yet")

    def forward(self, idx: Tensor) -> Tensor:
        """idx [B, T] of token ids -> logits [B, T, V]: the scores of the next token at each position, no softmax.

        Works for every T from 1 to max_len. When T > max_len: ValueError (or IndexError) with both numbers in
        its message. Two calls with the same ids give the same in eval mode; idx stays as it was.
        """
        raise NotImplementedError("ex09: MiniTransformer.forward is not implemented yet")
