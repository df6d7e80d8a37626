"""Unusual: sorted probabilities, their running sum, one uniform number a row; grad mode by hand; a list of columns."""

import torch


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    for bad, name, value in (
        (temperature < 0, "temperature", temperature),
        (top_k is not None and top_k <= 0, "top_k", top_k),
    ):
        if bad:
            raise ValueError(f"{name} is {value}")
    ranked, order = torch.sort(logits, dim=-1, descending=True, stable=True)
    if temperature == 0:
        return order[:, 0]
    ranked = (ranked - ranked[:, 0:1]) / temperature
    if top_k:
        ranked, order = ranked[:, :top_k], order[:, :top_k]
    running = torch.exp(ranked).cumsum(dim=-1)
    point = torch.rand(len(ranked), 1, generator=generator) * running[:, -1:]
    place = torch.searchsorted(running, point, right=True).clamp(max=running.shape[1] - 1)
    return torch.take_along_dim(order, place, dim=1).flatten()


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    columns = list(idx.unbind(dim=1))
    was_training, had_gradients = model.training, torch.is_grad_enabled()
    for _ in range(max_new_tokens):
        torch.set_grad_enabled(False)
        model.eval()
        logits = model(torch.stack(columns[-model.max_len :], dim=1)).select(1, -1)
        torch.set_grad_enabled(had_gradients)
        model.train(was_training)
        columns.append(next_token(logits, temperature, top_k, generator))
    return torch.stack(columns, dim=1)
