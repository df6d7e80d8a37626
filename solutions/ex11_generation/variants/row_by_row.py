"""Unusual: a Python loop over rows, in the draw and in the loop: each row is fed alone, as a batch of one."""

import torch


def _one(row, temperature, top_k, generator):
    if temperature == 0 or top_k == 1:
        return max(range(len(row)), key=lambda token: row[token].item())
    row = row / temperature
    if top_k is not None and top_k < len(row):
        blocked = torch.argsort(row)[: len(row) - top_k]
        row = row.index_fill(0, blocked, float("-inf"))
    return int(torch.multinomial(torch.softmax(row, 0), 1, generator=generator))


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    if temperature < 0:
        raise ValueError("temperature", temperature)
    if top_k is not None and top_k < 1:
        raise ValueError("top_k", top_k)
    return torch.tensor([_one(row, temperature, top_k, generator) for row in logits])


@torch.no_grad()
def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    texts = []
    for row in idx.tolist():
        text = list(row)
        for _ in range(max_new_tokens):
            logits = model(torch.tensor([text[-model.max_len :]]))[0, -1:]
            text.extend(next_token(logits, temperature, top_k, generator).tolist())
        texts.append(text)
    for module, mode in modes.items():
        module.training = mode
    return torch.tensor(texts)
