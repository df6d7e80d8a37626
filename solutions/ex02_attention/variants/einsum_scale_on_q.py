"""Unusual: einsum names every axis, and the scale is put on the queries before the product."""

import torch


def attention_scores(q, k):
    return torch.einsum("...td,...sd->...ts", q * q.shape[-1] ** -0.5, k)


def attention(q, k, v):
    weights = attention_scores(q, k).softmax(-1)
    return torch.einsum("...ts,...se->...te", weights, v), weights
