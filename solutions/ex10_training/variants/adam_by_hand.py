"""Unusual: nothing of torch.optim in `train`; Adam by hand, autograd.grad, one row a step drawn by Python's random."""

import math
import random

import torch


def shift(ids):
    return ids[..., :-1].clone(), ids[..., 1:].clone()


def next_token_loss(logits, ids, pad_id=None):
    total, number = logits[:0].sum(), 0
    for row_logits, row in zip(logits, ids, strict=True):
        for position in range(len(row) - 1):
            target = int(row[position + 1])
            if target == pad_id:
                continue
            total = total - row_logits[position].log_softmax(dim=0)[target]
            number += 1
    return total / max(number, 1)


def train_step(model, optimizer, ids):
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss = next_token_loss(model(ids), ids)
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
    return loss.item()


def train(model, data, steps, lr=3e-3, seed=0):
    dice = random.Random(seed)
    model.train()
    parameters = list(model.parameters())
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    losses = []
    for step in range(1, steps + 1):
        row = data[dice.randrange(len(data))].unsqueeze(0)
        logits = model(row[:, :-1])
        loss = torch.nn.functional.nll_loss(logits[0].log_softmax(-1), row[0, 1:])
        gradients = torch.autograd.grad(loss, parameters)
        size = lr * math.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                m.lerp_(g, 0.1)
                v.lerp_(g * g, 0.01)
                p.add_(-size * m / (v.sqrt() + 1e-8))
        losses.append(float(loss))
    return losses
