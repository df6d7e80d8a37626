"""Unusual: the weight is of a class derived from nn.Parameter; rows are taken flat, one number at a time."""

import torch
from torch import nn


class Weight(nn.Parameter):
    """A parameter with a name of its own."""


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, dim, padding_idx=None):
        super().__init__()
        rows = torch.rand(vocab_size, dim) - 0.5
        self.padding_idx = padding_idx
        if padding_idx is not None:
            rows[padding_idx] = 0.0
        self.weight = Weight(rows)

    def forward(self, ids):
        if torch.is_floating_point(ids):
            raise TypeError(f"no {ids.dtype} ids")
        V, C = self.weight.shape
        ids = ids.long()
        for bad in ids[(ids >= V) | (ids < 0)].tolist():
            raise IndexError(bad)
        vectors = torch.take(self.weight, ids[..., None] * C + torch.arange(C))
        if self.padding_idx is None:
            return vectors
        return torch.where((ids == self.padding_idx)[..., None], 0.0, vectors)


def one_hot_embedding(ids, weight):
    return (torch.eye(len(weight), dtype=weight.dtype)[ids].unsqueeze(-2) @ weight).squeeze(-2)
