"""A small exercise for the tests of the engine: scaled scores, and a layer."""

from torch import Tensor, nn


def scores(q: Tensor, k: Tensor) -> Tensor:  # [B, T, D], [B, S, D] -> [B, T, S]
    """Dot products of queries and keys, divided by the root of their width."""
    raise NotImplementedError("ex01: scores is not implemented yet")


def halves(x: Tensor) -> tuple[Tensor, Tensor]:  # [..., D] -> two of [..., D / 2]
    """The two halves of the last axis. An odd width raises `ValueError` that names it."""
    raise NotImplementedError("ex01: halves is not implemented yet")


class Scale(nn.Module):
    """Multiplies each channel by a weight of its own; `weight [C]` starts at ones."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        raise NotImplementedError("ex01: Scale.__init__ is not implemented yet")

    def forward(self, x: Tensor) -> Tensor:  # [..., C] -> [..., C]
        raise NotImplementedError("ex01: Scale.forward is not implemented yet")
