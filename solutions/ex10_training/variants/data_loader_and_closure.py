"""Unusual: the class axis second, a closure for the optimizer, a DataLoader that goes round, a warm-up from 0."""

import itertools

import torch
import torch.nn as nn
from torch.utils.data import DataLoader


def shift(ids):
    return torch.split(ids, [ids.size(1) - 1, 1], dim=1)[0], torch.split(ids, [1, ids.size(1) - 1], dim=1)[1]


def next_token_loss(logits, ids, pad_id=None):
    targets = shift(ids)[1].clone()
    kept = targets.numel()
    if pad_id is not None:
        pads = targets == pad_id
        targets[pads] = -1
        kept -= int(pads.sum())
    criterion = nn.CrossEntropyLoss(ignore_index=-1, reduction="sum")
    return criterion(logits.transpose(1, 2)[:, :, :-1], targets) / max(kept, 1)


def train_step(model, optimizer, ids):
    model.train()

    def closure():
        optimizer.zero_grad(set_to_none=False)
        loss = next_token_loss(model(ids), ids)
        loss.backward()
        return loss

    return optimizer.step(closure).item()


def train(model, data, steps, lr=3e-3, seed=0):
    loader = DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(seed))
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    optimizer = torch.optim.NAdam(model.parameters(), lr)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10))
    losses = []
    for batch in itertools.islice(batches, steps):
        losses.append(train_step(model, optimizer, batch))
        warm_up.step()
    return losses
