"""Objects of the grader's own that live beside the submission: models of known logits, optimizers.

They run where the submission runs, so what they record is evidence of an honest submission only. `MAKERS` is the
table that a `Make` request names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Recorder(nn.Module):
    """A model that notes each call: what it was fed, in which mode, with gradients or without."""

    def __init__(self, max_len: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.fed: list[Tensor] = []
        self.modes: list[bool] = []
        self.grads: list[bool] = []

    def note(self, ids: Tensor) -> None:
        self.fed.append(ids.detach().clone())
        self.modes.append(self.training)
        self.grads.append(torch.is_grad_enabled())


class Bigram(Recorder):
    """The logits after a token are that token's row of a trainable table [V, V]: a causal model of one parameter."""

    def __init__(self, table: Tensor, max_len: int = 32) -> None:
        super().__init__(max_len)
        self.table = nn.Parameter(table.detach().clone())

    def forward(self, ids: Tensor) -> Tensor:
        self.note(ids)
        return self.table[ids]  # [B, T] -> [B, T, V]


class Scripted(Recorder):
    """The n-th call answers `logits[n]` [B, V] at the last position and `elsewhere` at all others."""

    def __init__(self, logits: Tensor, max_len: int = 32, elsewhere: float = 0.0) -> None:
        super().__init__(max_len)
        self.logits = logits.detach().clone()
        self.elsewhere = elsewhere
        self.answered: list[Tensor] = []

    def forward(self, ids: Tensor) -> Tensor:
        step = min(len(self.fed), len(self.logits) - 1)
        self.note(ids)
        last = self.logits[step]
        out = torch.full((*ids.shape, last.shape[-1]), self.elsewhere, dtype=last.dtype)
        out[:, -1] = last
        self.answered.append(out)
        return out  # [B, T, V]


class Linear(Recorder):
    """x @ weight.T + bias, of the weights given."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, max_len: int = 32) -> None:
        super().__init__(max_len)
        self.weight = nn.Parameter(weight.detach().clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        self.note(x)
        return nn.functional.linear(x, self.weight, self.bias)


def optimizer(kind: str, model: nn.Module, **settings: Any) -> torch.optim.Optimizer:
    """An optimizer of `torch.optim` over the parameters of a model."""
    made: torch.optim.Optimizer = getattr(torch.optim, kind)(model.parameters(), **settings)
    return made


MAKERS: dict[str, Callable[..., object]] = {
    "bigram": Bigram,
    "scripted": Scripted,
    "linear": Linear,
    "identity": lambda: nn.Identity(),
    "optimizer": optimizer,
}
