"""A small exercise for the tests of the engine: scaled scores, and a layer."""

import torch
from torch import Tensor, nn


def scores(q: Tensor, k: Tensor) -> Tensor:  # [B, T, D], [B, S, D] -> [B, T, S]
    """Dot products of queries and keys, divided by the root of their width."""
    # BEGIN SOLUTION
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # [B, T, S]
    # END SOLUTION


def halves(x: Tensor) -> tuple[Tensor, Tensor]:  # [..., D] -> two of [..., D / 2]
    """The two halves of the last axis. An odd width raises `ValueError` that names it."""
    # BEGIN SOLUTION
    if x.shape[-1] % 2:
        raise ValueError(f"the width {x.shape[-1]} is odd")
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    # END SOLUTION


class Scale(nn.Module):
    """Multiplies each channel by a weight of its own; `weight [C]` starts at ones."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(dim))
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:  # [..., C] -> [..., C]
        # BEGIN SOLUTION
        return x * self.weight
        # END SOLUTION
