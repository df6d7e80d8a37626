"""ex10: what a language model is trained on: the next token.

Letters: B batch, T tokens in a row, V vocabulary, N rows of the data.

A model turns ids [B, T] into logits [B, T, V]. The logits at position t are about token t + 1: nothing after t was
used for them (the models are causal), and token t + 1 is the one to be predicted.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def shift(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Split `ids [B, T]` into what a model sees and what it has to predict: (inputs [B, T-1], targets [B, T-1]).

    `targets[b, t]` is the token that follows `inputs[b, t]`.
    """
    # BEGIN SOLUTION
    return ids[:, :-1], ids[:, 1:]  # [B, T-1] and [B, T-1]
    # END SOLUTION


def next_token_loss(logits: Tensor, ids: Tensor, pad_id: int | None = None) -> Tensor:
    """The mean cross-entropy of the next token: a scalar tensor, of the dtype of the logits.

    `logits [B, T, V]` are raw scores (no softmax yet), made from all of `ids [B, T]`: those at position t are about
    token t + 1, and those at the last position are about nothing we know.
    - The mean is over the real targets. With `pad_id`, a target of that id is padding and does not count, neither in
      the sum nor in the number it is divided by. Any id can be the pad, 0 and V - 1 too; all other ids are real.
    - With `pad_id=None` every target counts, whatever its id.
    - Where no target is real (every one of them is a pad) the loss is 0 and its gradient is all zeros, never NaN.
    - `logits` and `ids` stay as they are.
    """
    # BEGIN SOLUTION
    _, targets = shift(ids)  # [B, T-1]
    flat = logits[:, :-1].reshape(-1, logits.shape[-1])  # [B*(T-1), V]
    ignored = -100 if pad_id is None else pad_id  # -100 is no token: nothing is left out
    total = F.cross_entropy(flat, targets.reshape(-1), ignore_index=ignored, reduction="sum")
    return total / (targets != ignored).sum().clamp(min=1)
    # END SOLUTION


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, ids: Tensor) -> float:
    """Take exactly one step of `optimizer` on the next-token loss of `ids [B, T]` (no padding, every id counts).

    - The model is in train mode for this, and stays in it; it may come in eval mode.
    - Gradients that were left in the parameters before do not count.
    - The model may be fed `ids` or `ids[:, :-1]`: it is causal, the logits that count are the same.
    - Returns the loss before the step, as a Python float. `ids` stay as they are.
    """
    # BEGIN SOLUTION
    model.train()
    loss = next_token_loss(model(ids), ids)  # [B, T, V] and [B, T] -> scalar
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
    # END SOLUTION


def train(model: nn.Module, data: Tensor, steps: int, lr: float = 3e-3, seed: int = 0) -> list[float]:
    """Train `model` itself (no copy of it) on the rows of `data [N, T]`, and return one loss for each of the `steps`.

    - Which optimizer, and which rows make up a batch, is your choice, as long as the sequence 0 1 2 ... 7 0 1 2 ... is
      learned to a loss below 0.05 within 300 steps at the default `lr` (as Adam does), and every row has its turn.
    - `lr` is the learning rate of the optimizer: one that is a hundred times larger moves the weights about a hundred
      times as far in a few steps, and one of 0 does not move them.
    - All that `train` itself draws follows from `seed`: the same model, data and seed give the same losses.
    - The losses are those of the training that happened: the k-th is the loss of the k-th step's batch. There are
      `steps` of them, also when the loss is small already. They are Python floats. `data` stays as it is.
    """
    # BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        if len(order) == 0:
            order = torch.randperm(len(data), generator=generator)  # [N], a new round through all rows
        batch, order = data[order[:16]], order[16:]  # [up to 16, T]
        losses.append(train_step(model, optimizer, batch))
    return losses
    # END SOLUTION
