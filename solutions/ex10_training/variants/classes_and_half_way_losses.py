"""Unusual: a class does the training, RAdam, batches drawn with replacement, `nll_loss` of a float32 upcast."""

import dataclasses

import torch
from torch import Tensor, nn


def shift(ids: Tensor) -> list[Tensor]:
    return [ids[:, :-1].contiguous(), ids[:, 1:].contiguous()]


class _Loss(nn.Module):
    def __init__(self, pad_id):
        super().__init__()
        self.pad_id = pad_id

    def forward(self, logits, ids):
        predictions = torch.log_softmax(logits.float(), -1)[:, :-1].to(logits.dtype).flatten(0, 1)
        targets = ids[:, 1:].flatten()
        losses = nn.functional.nll_loss(predictions, targets, reduction="none")
        real = torch.ones_like(losses) if self.pad_id is None else 1 - (targets == self.pad_id).to(losses.dtype)
        return losses.dot(real) / torch.maximum(real.sum(), torch.ones(()).to(real))


def next_token_loss(logits, ids, pad_id=None):
    return _Loss(pad_id)(logits, ids)


@dataclasses.dataclass
class _Trainer:
    model: nn.Module
    optimizer: torch.optim.Optimizer

    def __call__(self, ids):
        self.model.train()
        with torch.enable_grad():
            loss = _Loss(None)(self.model(ids), ids)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def train_step(model, optimizer, ids):
    return _Trainer(model, optimizer)(ids)


def train(model, data, steps, lr=3e-3, seed=0):
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    trainer = _Trainer(model, torch.optim.RAdam(model.parameters(), lr=lr))
    losses = tuple(trainer(data[torch.multinomial(torch.ones(len(data)), 12, replacement=True)]) for _ in range(steps))
    torch.set_rng_state(state)
    return list(losses)
