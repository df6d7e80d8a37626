"""Hand-built blocks of other names: query, key and value apart, ReLU, nn.Sequential for the stack, dropout by F."""

import math

import torch
import torch.nn.functional as F
from torch import nn

P_DROP = 0.2


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.out = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.query = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        def split(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores + torch.full_like(scores[0, 0], -1e9).triu(1)
        weights = F.dropout(scores.softmax(-1), 0.1, self.training)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class TransformerLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.ffn_norm, self.attn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.expand, self.shrink = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.attention = SelfAttention(width, heads)

    def forward(self, x):
        x = x + F.dropout(self.attention(self.attn_norm(x)), P_DROP, self.training)
        return x + F.dropout(self.shrink(self.expand(self.ffn_norm(x)).relu()), P_DROP, self.training)


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.max_len = max_len
        self.tok_emb, self.pos_emb = nn.Embedding(vocab, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.Sequential(*(TransformerLayer(d_model, n_heads, d_ff) for _ in range(n_layers)))
        self.ln, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab)

    def forward(self, idx):
        if idx.shape[-1] > self.max_len:
            raise ValueError("too long", idx.shape[-1], self.max_len)
        return self.head(self.ln(self.blocks(self.tok_emb(idx) + self.pos_emb.weight[: idx.shape[-1]])))
