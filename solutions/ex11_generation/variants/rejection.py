"""Unusual: proposals drawn evenly and accepted with p / max p, again and again until every row has its token."""

import torch
from torch.nn.functional import pad


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    if temperature < 0:
        raise ValueError(f"need temperature >= 0, not {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"need top_k >= 1, not {top_k}")
    count, vocab = logits.shape
    best = logits.max(dim=1)
    if temperature == 0 or top_k == 1:
        return best.indices
    accept = torch.exp((logits - best.values[:, None]) / temperature)
    if top_k is not None:
        rank = logits.argsort(dim=1, descending=True).argsort(dim=1)
        accept = accept * (rank < top_k)
    tokens = torch.full((count,), -1)
    while (tokens < 0).any():
        proposal = torch.randint(vocab, (count,), generator=generator)
        chance = accept.gather(1, proposal[:, None])[:, 0]
        accepted = (torch.rand(count, generator=generator) < chance) & (tokens < 0)
        tokens = torch.where(accepted, proposal, tokens)
    return tokens


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    before = model.training
    text = idx.contiguous()
    try:
        for _ in range(max_new_tokens):
            with torch.autograd.grad_mode.no_grad():
                logits = model.eval().forward(text[:, max(text.shape[1] - model.max_len, 0) :])[:, -1]
            text = pad(text, (0, 1))
            text[:, -1] = next_token(logits, temperature, top_k, generator)
    finally:
        model.train(before)
    return text
