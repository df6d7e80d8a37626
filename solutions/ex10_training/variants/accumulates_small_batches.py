"""Unusual: the gradient of a batch is added up from two halves in `train`, clipped, stepped by RMSprop; float64 inside."""

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


def shift(ids):
    return ids[:, : ids.shape[1] - 1], ids[:, 1:]


def next_token_loss(logits, ids, pad_id=None):
    probabilities = logits.double().log_softmax(-1)[:, :-1]
    targets = ids[:, 1:]
    losses = -probabilities.gather(-1, targets[..., None])[..., 0]
    keep = torch.ones_like(targets, dtype=torch.bool) if pad_id is None else targets != pad_id
    losses = torch.where(keep, losses, torch.zeros_like(losses))
    return (losses.sum() / keep.sum().clamp_min(1)).to(logits.dtype)


def train_step(model, optimizer, ids):
    for parameter in model.parameters():
        parameter.grad = None
    model.train()
    loss = next_token_loss(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach().item()


def train(model, data, steps, lr=3e-3, seed=0):
    model.train()
    generator = torch.Generator()
    generator.manual_seed(seed)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        rows = data[torch.randint(0, len(data), (8,), generator=generator)]
        optimizer.zero_grad()
        step_loss = 0.0
        for part in rows.chunk(2):
            loss = F.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten()) * len(part) / len(rows)
            loss.backward()
            step_loss += loss.item()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(step_loss)
    return losses
