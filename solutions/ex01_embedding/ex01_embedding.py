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
        # BEGIN SOLUTION
        self.vocab_size = vocab_size
        self.padding_idx = padding_idx
        self.weight = nn.Parameter(torch.randn(vocab_size, dim))  # [V, C]
        if padding_idx is not None:
            with torch.no_grad():
                self.weight[padding_idx] = 0.0
        # END SOLUTION

    def forward(self, ids: Tensor) -> Tensor:
        """Look up `ids [...]`, of any integer dtype (uint8, int16, int64, ...), and return vectors `[..., C]`.

        The gradient of row r is the sum over all places where the id is r. The gradient of row `padding_idx` is
        exactly 0. `ids` and `weight` stay as they are, and no one-hot tensor `[..., V]` is built here.

        Raises TypeError, with the dtype in its message, if the ids are not integers.
        Raises IndexError, with the bad id in its message, if an id is negative or not below V. (Python's own
        indexing takes a negative index silently: it counts from the end.)
        """
        # BEGIN SOLUTION
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise TypeError(f"ids must be integers, got {ids.dtype}")
        rows = ids.long()  # [...]
        outside = rows[(rows < 0) | (rows >= self.vocab_size)]
        if outside.numel() > 0:
            raise IndexError(f"ids must be at least 0 and below {self.vocab_size}, got {outside[0].item()}")
        vectors = self.weight[rows]  # [..., C]
        if self.padding_idx is not None:
            is_pad = (rows == self.padding_idx).unsqueeze(-1)  # [..., 1]
            vectors = vectors.masked_fill(is_pad, 0.0)  # the row is zero anyway; this keeps its gradient at zero
        return vectors  # [..., C]
        # END SOLUTION


def one_hot_embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """The same lookup written as a matrix product: one-hot rows `[..., V]` times `weight [V, C]` gives `[..., C]`.

    `ids` are int64, of any leading shape, each at least 0 and below V. The answer has the dtype of `weight`, which may
    be any floating dtype, and `weight` receives its gradient. Here the multiplication is to be done in earnest.
    """
    # BEGIN SOLUTION
    columns = torch.arange(weight.shape[0], device=weight.device)  # [V]
    one_hot = ids.unsqueeze(-1) == columns  # [..., V]
    return one_hot.to(weight.dtype) @ weight  # [..., V] @ [V, C] -> [..., C]
    # END SOLUTION
