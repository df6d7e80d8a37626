"""Unusual: torch.func instead of backward(), a cosine schedule, momentum SGD, losses looked at once more at the end."""

import math

import torch
from torch.func import functional_call, grad_and_value


def shift(ids):
    inputs, targets = ids.unfold(1, 2, 1).unbind(-1)
    return inputs, targets


def next_token_loss(logits, ids, pad_id=None):
    targets = ids[:, 1:]
    chosen = targets >= 0 if pad_id is None else targets.ne(pad_id)
    picked, wanted = logits[:, :-1][chosen], targets[chosen]
    if len(wanted) == 0:
        return 0 * logits.square().sum()
    places = torch.arange(len(wanted))
    centred = picked - picked.amax(dim=-1, keepdim=True).detach()
    return (centred.exp().sum(-1).log() - centred[places, wanted]).mean()


def _loss_and_gradients(model, ids):
    named = {name: parameter.detach() for name, parameter in model.named_parameters()}
    gradients, loss = grad_and_value(lambda p: next_token_loss(functional_call(model, p, (ids,)), ids))(named)
    return loss.item(), gradients


def train_step(model, optimizer, ids):
    model.train()
    model.zero_grad(set_to_none=True)
    loss, gradients = _loss_and_gradients(model, ids)
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name].clone()
    optimizer.step()
    return loss


def train(model, data, steps, lr=3e-3, seed=0):
    model.train()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=10 * lr, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.55 + 0.45 * math.cos(math.pi * step / max(steps, 1))
    )
    losses = []
    while len(losses) < steps:
        for rows in torch.randperm(len(data), generator=generator).split(32):
            if len(losses) < steps:
                losses.append(train_step(model, optimizer, data[rows]))
                schedule.step()
    model.eval()
    with torch.no_grad():
        next_token_loss(model(data), data)
    return losses
