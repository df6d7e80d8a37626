"""Unusual: a Python loop over the ids, rows stacked one by one; padding rows are detached; one-hot rows one at a time."""

import torch
from torch import nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, dim, padding_idx=None):
        super().__init__()
        self.padding_idx = padding_idx
        rows = [torch.zeros(dim) if i == padding_idx else torch.randn(dim) for i in range(vocab_size)]
        self.weight = nn.Parameter(torch.stack(rows))

    def forward(self, ids):
        try:
            numbers = [int(i).__index__() if not ids.is_floating_point() else [].index(ids) for i in ids.reshape(-1)]
        except ValueError:
            raise TypeError(f"cannot look up float ids {ids}") from None
        picked = []
        for number in numbers:
            if number < 0 or number > self.weight.shape[0] - 1:
                raise IndexError(f"no row {number}")
            row = self.weight[number]
            picked.append(row.detach() if number == self.padding_idx else row)
        out = torch.stack(picked)
        if not out.requires_grad and self.weight.requires_grad and torch.is_grad_enabled():
            out = out + 0.0 * self.weight.sum()
        return out.view(*ids.shape, -1)


def one_hot_embedding(ids, weight):
    eye = torch.eye(weight.size(0), dtype=weight.dtype)
    rows = [eye[i] @ weight for i in ids.reshape(-1).tolist()]
    return torch.stack(rows).reshape(tuple(ids.shape) + (weight.size(1),))
