"""Unusual: Gumbel noise and an argmax, top-k by a threshold, inference mode, a text that was laid out beforehand."""

import math

import torch


def _check(temperature, top_k):
    if temperature < 0:
        raise ValueError(f"{temperature=} is negative")
    if top_k is not None and top_k < 1:
        raise ValueError(f"{top_k=} is less than one")


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    _check(temperature, top_k)
    scores = logits.detach().double()
    if top_k is not None and top_k < scores.size(-1):
        threshold = torch.topk(scores, top_k)[0][..., -1, None]
        scores = scores.masked_fill(scores.lt(threshold), -math.inf)
    if temperature > 0:
        uniform = torch.rand(scores.shape, dtype=scores.dtype, generator=generator).clamp_min(1e-300)
        scores = scores + temperature * -torch.log(-torch.log(uniform))
    return torch.argmax(scores, dim=-1)


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    _check(temperature, top_k)
    rows, start = idx.shape
    text = idx.new_zeros(rows, start + max_new_tokens)
    text[:, :start] = idx
    mode = model.training
    model.train(False)
    with torch.inference_mode():
        for end in range(start, start + max_new_tokens):
            begin = max(0, end - model.max_len)
            text[:, end] = next_token(model(text[:, begin:end])[:, -1, :], temperature, top_k, generator)
    if mode:
        model.train()
    return text
