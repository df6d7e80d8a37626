"""Unusual: Python's random.Random, seeded from the generator at each call; bisect; a context manager for the mode."""

import bisect
import contextlib
import itertools
import math
import random

import torch


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise ValueError(f"temperature {temperature}, top_k {top_k}")
    if temperature == 0:
        return logits.argmax(1)
    dice = random.Random(int(torch.randint(2**62, (1,), generator=generator)))
    tokens = []
    for row in logits.tolist():
        order = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:top_k]
        sums = list(itertools.accumulate(math.exp((row[token] - row[order[0]]) / temperature) for token in order))
        tokens.append(order[bisect.bisect_right(sums, dice.random() * sums[-1], hi=len(sums) - 1)])
    return torch.as_tensor(tokens, dtype=torch.int64)


@contextlib.contextmanager
def _evaluating(model):
    mode = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(mode)


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    text = idx.clone()
    with _evaluating(model):
        while text.shape[1] < idx.shape[1] + max_new_tokens:
            new = next_token(model(text[:, -model.max_len :])[:, -1], temperature, top_k, generator)
            text = torch.hstack((text, new.unsqueeze(1)))
    return text
