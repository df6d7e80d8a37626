"""Unusual: one row a step in turn, no randomness at all, Adamax, a loss that is built by boolean algebra and bincount."""

import torch
import torch.nn.functional as F
from torch import optim


def shift(ids):
    width = ids.shape[-1]
    return ids.index_select(1, torch.arange(width - 1)), ids.index_select(1, torch.arange(1, width))


def next_token_loss(logits, ids, pad_id=None):
    batch, length, vocab = logits.shape
    weight = None
    if pad_id is not None:
        weight = torch.ones(vocab, dtype=logits.dtype)
        weight[pad_id] = 0
    summed = F.cross_entropy(
        logits[:, :-1].contiguous().view(-1, vocab), ids[:, 1:].contiguous().view(-1), weight=weight, reduction="sum"
    )
    number = batch * (length - 1) if pad_id is None else int(torch.count_nonzero(ids[:, 1:] - pad_id))
    return summed / number if number else summed


def train_step(model, optimizer, ids):
    model.train()
    optimizer.zero_grad()
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.permute(0, 2, 1), ids[:, 1:])
    loss.backward()
    value = loss.tolist()
    optimizer.step()
    return value


def train(model, data, steps, lr=3e-3, seed=0):
    optimizer = optim.Adamax(model.parameters(), lr=lr)
    return [train_step(model, optimizer, data[step % len(data) : step % len(data) + 1]) for step in range(steps)]
