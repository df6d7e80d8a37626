"""Unusual: cross-entropy as logsumexp minus a one-hot product, inputs without the last token, the whole data a step."""

import torch
from torch.optim import AdamW


def shift(ids):
    return ids.narrow(1, 0, ids.shape[1] - 1), ids.narrow(1, 1, ids.shape[1] - 1)


def _cross_entropy(predictions, targets):
    hot = torch.nn.functional.one_hot(targets, predictions.shape[-1]).to(predictions.dtype)
    return torch.logsumexp(predictions, dim=-1) - torch.einsum("btv,btv->bt", predictions, hot)


def next_token_loss(logits, ids, pad_id=None):
    _, targets = shift(ids)
    losses = _cross_entropy(logits[:, :-1], targets)
    if pad_id is None:
        return losses.mean()
    real = targets.ne(pad_id).to(losses.dtype)
    if real.sum() == 0:
        return logits.sum() * 0
    return (losses * real).sum() / real.sum()


def train_step(model, optimizer, ids):
    model.train(True)
    model.zero_grad()
    inputs, targets = shift(ids)
    loss = _cross_entropy(model(inputs), targets).mean()
    loss.backward()
    optimizer.step()
    return float(loss)


def train(model, data, steps, lr=3e-3, seed=0):
    torch.manual_seed(seed)
    optimizer = AdamW(params=model.parameters(), lr=lr, weight_decay=0.1)
    return [train_step(model, optimizer, data) for _ in range(steps)]
