"""Unusual: the lookup runs along the columns of the transposed table, so the answer is a non-contiguous view."""

import torch
from torch import nn


class Base(nn.Module):
    def check(self, ids):
        if ids.is_floating_point():
            raise TypeError(f"dtype {ids.dtype} is not an integer dtype")
        wrong = (ids.long() < 0).logical_or(ids.long() >= self.vocab)
        if torch.any(wrong):
            raise IndexError(f"{ids[wrong]} is outside 0 .. {self.vocab - 1}")


class TokenEmbedding(Base):
    def __init__(self, vocab_size, dim, padding_idx=None):
        super().__init__()
        self.vocab = vocab_size
        self.register_buffer("pad", torch.tensor(-1 if padding_idx is None else padding_idx), persistent=False)
        self.weight = nn.Parameter(torch.randn(dim, vocab_size).t())
        self.table = self.weight  # a second name for the same parameter
        with torch.no_grad():
            self.weight.masked_fill_((torch.arange(vocab_size) == self.pad)[:, None], 0)

    def forward(self, ids):
        self.check(ids)
        columns = self.table.t()[:, ids.long()]
        columns = torch.where(ids.long() == self.pad, columns.detach(), columns)
        return columns.movedim(0, -1)


def one_hot_embedding(ids, weight):
    eye = torch.eye(weight.shape[0], dtype=torch.float64)
    return (weight.t().double() @ eye[:, ids.reshape(-1)]).t().reshape(*ids.shape, -1).to(weight)
