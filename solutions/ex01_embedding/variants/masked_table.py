"""Unusual: the whole table is multiplied by a keep column (an extra buffer) before every lookup; one-hot by scatter."""

import torch
from torch import nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, dim, padding_idx=None):
        super().__init__()
        keep = torch.ones(vocab_size, 1)
        if padding_idx is not None:
            keep[padding_idx] = 0
        self.register_buffer("keep", keep)
        self.weight = nn.Parameter(torch.zeros(vocab_size, dim))
        nn.init.normal_(self.weight, std=0.02)
        self.weight.data *= keep

    def forward(self, ids):
        if ids.dtype.is_floating_point:
            raise TypeError("integer ids wanted, not " + str(ids.dtype))
        if (ids < 0).any():
            raise IndexError(f"negative ids: {ids[ids < 0].tolist()}")
        return (self.weight * self.keep)[ids.to(torch.int64)]  # torch itself names an id that is too large


def one_hot_embedding(ids, weight):
    flat = ids.reshape(-1, 1)
    one_hot = weight.new_zeros(flat.shape[0], weight.shape[0]).scatter_(1, flat, 1.0)
    return torch.einsum("nv,vc->nc", one_hot, weight).reshape(*ids.shape, weight.shape[1])
