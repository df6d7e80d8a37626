"""Unusual: one coin a token, in the order of the vocabulary, until one shows heads; a class that draws."""

import torch
from torch import Tensor


class _Sampler:
    def __init__(self, temperature, top_k, generator):
        if temperature < 0:
            raise ValueError("temperature < 0: " + str(temperature))
        if top_k is not None and top_k < 1:
            raise ValueError("top_k < 1: " + str(top_k))
        self.temperature, self.top_k, self.generator = temperature, top_k, generator

    def probabilities(self, logits: Tensor) -> Tensor:
        k = logits.shape[-1] if self.top_k is None else min(self.top_k, logits.shape[-1])
        smallest = logits.kthvalue(logits.shape[-1] - k + 1, dim=-1, keepdim=True).values
        scaled = (logits - logits.amax(-1, True)).div(self.temperature)
        weights = scaled.exp() * (logits >= smallest)
        return weights / weights.sum(-1, keepdim=True)

    def __call__(self, logits: Tensor) -> Tensor:
        if self.temperature == 0:
            return logits.argmax(-1)
        left = torch.ones(logits.shape[:-1], dtype=torch.float64)
        tokens = torch.full(logits.shape[:-1], -1)
        probabilities = self.probabilities(logits.double())
        for token, p in enumerate(probabilities.unbind(-1)):
            heads = torch.rand(p.shape, generator=self.generator, dtype=torch.float64) * left < p
            tokens = torch.where(heads & (tokens < 0), token, tokens)
            left = left - p
        return torch.where(tokens < 0, probabilities.argmax(-1), tokens)


def next_token(logits, temperature=1.0, top_k=None, generator=None):
    return _Sampler(temperature, top_k, generator)(logits)


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, generator=None):
    choose = _Sampler(temperature, top_k, generator)
    training, model.training = model.training, False
    model.eval()
    for _ in range(max_new_tokens):
        with torch.no_grad():
            answer = model(idx if idx.size(1) <= model.max_len else idx[:, idx.size(1) - model.max_len :])
        idx = torch.cat((idx, choose(answer[:, -1]).reshape(-1, 1)), 1)
    model.train(training)
    return idx
