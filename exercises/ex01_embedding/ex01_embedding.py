"""ex01: from a token id to a vector.

Letters: V vocabulary size, C width of a vector. [...] is any leading shape: [], [T], [B, T], [B, H, T] and so on.

Not allowed anywhere in this file: nn.Embedding, F.embedding, nn.EmbeddingBag (nor the same operation under another
name). Plain indexing, index_select and gather are allowed.
"""

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """A trainable table with one row for every token id; an id picks its row.

    The only parameter is `weight`, of shape [V, C]. It starts random (a standard normal is usual), so that no two
    tokens begin alike. `padding_idx` names one id that only fills up short sentences: its row is zero from the start,
    and no gradient ever reaches it through `forward`, so that training leaves it at zero. The default, None, means that
    every id is an ordinary token; 0 is an id like any other.
    """

    def __init__(self, vocab_size: int, dim: int, padding_idx: int | None = None):
        """Make `weight` with `vocab_size` rows (V) of width `dim` (C). Row `padding_idx`, if there is one, is zero."""
        super().__init__()
        raise NotImplementedError("ex01: TokenEmbedding.__init__ is not implemented yet")

    def forward(self, ids: Tensor) -> Tensor:
        """Look up `ids [...]`, of any integer dtype (uint8, int16, int64, ...), and return vectors `[..., C]`.

        The gradient of row r is the sum over all places where the id is r. The gradient of row `padding_idx` is
        exactly 0. `ids` and `weight` stay as they are, and no one-hot tensor `[..., V]` is built here.

        Raises TypeError, with the dtype in its message, if the ids are not integers.
        Raises IndexError, with the bad id in its message, if an id is negative or not below V. (Python's own
        indexing takes a negative index silently: it counts from the end.)
        """
        raise NotImplementedError("ex01: TokenEmbedding.forward is not implemented yet")


def one_hot_embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """The same lookup written as a matrix product: one-hot rows `[..., V]` times `weight [V, C]` gives `[..., C]`.

    `ids` are int64, of any leading shape, each at least 0 and below V. The answer has the dtype of `weight`, which may
    be any floating dtype, and `weight` receives its gradient. Here the multiplication is to be done in earnest.
    """
    raise NotImplementedError("ex01: one_hot_embedding is not implemented yet")
