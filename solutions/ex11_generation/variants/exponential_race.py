"""Unusual: log-softmax before the temperature, a race of exponential clocks, generate by recursion."""

import torch
import torch.nn.functional as F


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    if not temperature >= 0:
        raise ValueError(f"a temperature of {temperature}")
    if top_k is not None and not top_k > 0:
        raise ValueError(f"a top_k of {top_k}")
    log_p = F.log_softmax(logits, dim=-1)
    if top_k is not None:
        keep = torch.zeros_like(log_p, dtype=torch.bool)
        keep.scatter_(-1, log_p.topk(min(top_k, log_p.shape[-1]), dim=-1, sorted=False).indices, True)
        log_p = torch.where(keep, log_p, torch.full_like(log_p, -torch.inf))
    if not temperature:
        return log_p.max(dim=-1).indices
    p = F.softmax(log_p / temperature, dim=-1)
    clocks = torch.empty_like(p).exponential_(generator=generator)
    return (p / clocks).argmax(-1)


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    if max_new_tokens == 0:
        return idx
    mode = model.training
    with torch.no_grad():
        logits = model.eval()(idx.narrow(1, max(0, idx.shape[1] - model.max_len), min(idx.shape[1], model.max_len)))
    model.train(mode)
    new = next_token(logits[:, -1], temperature, top_k, generator)
    return generate(model, torch.column_stack([idx, new]), max_new_tokens - 1, temperature, top_k, generator)
