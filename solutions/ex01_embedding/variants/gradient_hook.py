"""Unusual: a hook on the parameter clears the padding gradient; index_select on flattened ids; bounds from min and max."""

import torch
import torch.nn.functional as F
from torch import nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, dim, padding_idx=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, dim))
        nn.init.xavier_uniform_(self.weight)
        if padding_idx is not None:
            self.weight.data[padding_idx].zero_()
            self.weight.register_hook(lambda g: g.index_fill(0, torch.tensor([padding_idx]), 0.0))

    def forward(self, ids):
        if torch.is_floating_point(ids):
            raise TypeError(f"expected integer ids but received a tensor of type {ids.type()}")
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self.weight.size(0):
            raise IndexError(f"ids span [{low}, {high}] but the table has rows 0..{self.weight.size(0) - 1}")
        return self.weight.index_select(0, ids.flatten().int()).reshape(*ids.shape, -1)


def one_hot_embedding(ids, weight):
    return F.one_hot(ids, num_classes=weight.shape[0]).type_as(weight).matmul(weight)
