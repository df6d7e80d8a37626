"""A module for each head, key, query and value in that order, prefix slices instead of a mask; 1x1 convolutions as MLP."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.key = nn.Linear(width, inner)
        self.query = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)

    def forward(self, x):
        k, q, v = self.key(x), self.query(x), self.value(x)
        steps = []
        for t in range(x.shape[1]):
            scores = torch.einsum("bd,bsd->bs", q[:, t], k[:, : t + 1]) * k.shape[-1] ** -0.5
            steps.append(torch.einsum("bs,bsd->bd", scores.softmax(-1), v[:, : t + 1]))
        return torch.stack(steps, dim=1)


class Block(nn.Module):
    def __init__(self, width, n_heads, hidden):
        super().__init__()
        self.sa = nn.ModuleList(Head(width, width // n_heads) for _ in range(n_heads))
        self.mix = nn.Linear(width, width)
        self.ff = nn.Sequential(nn.Conv1d(width, hidden, 1), nn.GELU("tanh"), nn.Conv1d(hidden, width, 1))
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        normed = self.norm_a(x)
        x = x + self.mix(torch.cat([head(normed) for head in self.sa], dim=-1))
        return x + self.ff(self.norm_b(x).mT).mT


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.max_len = max_len
        self.tok_emb = nn.Embedding(vocab, d_model)
        self.pos_emb = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleDict({f"layer{i}": Block(d_model, n_heads, d_ff) for i in range(n_layers)})
        self.ln = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, idx):
        assert idx.dim() == 2
        length = int(idx.shape[1])
        if length > self.max_len:
            raise ValueError("max_len is {}, T is {}".format(self.max_len, length))
        x = self.tok_emb(idx) + self.pos_emb(torch.arange(length).expand_as(idx))
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.ln(x))
