"""Unusual: take_along_dim on a table whose padding row is cut out and replaced by a constant row of zeros."""

import torch
from torch import nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, dim, padding_idx=None):
        super().__init__()
        self.padding_idx = padding_idx
        scale = dim**-0.5
        self.weight = nn.Parameter(scale * torch.randn(vocab_size, dim))
        if padding_idx is not None:
            nn.init.zeros_(self.weight.data[padding_idx])

    def table(self):
        if self.padding_idx is None:
            return self.weight
        p = self.padding_idx
        zero = torch.zeros(1, self.weight.shape[1]).to(self.weight)
        return torch.cat([self.weight[:p], zero, self.weight[p + 1 :]], dim=0)

    def forward(self, ids):
        if "int" not in str(ids.dtype):
            raise TypeError(str(ids.dtype))
        table = self.table()
        flat = ids.reshape(-1).to(torch.int64)
        if len(flat) and (flat.min() < 0 or flat.max() >= len(table)):
            raise IndexError(f"min {flat.min()}, max {flat.max()}, vocabulary {len(table)}")
        return torch.take_along_dim(table, flat[:, None], dim=0).reshape(ids.shape + table.shape[1:])


def one_hot_embedding(ids, weight):
    one_hot = torch.nn.functional.one_hot(ids, len(weight)).to(weight.dtype)
    return torch.tensordot(one_hot, weight, dims=1)
