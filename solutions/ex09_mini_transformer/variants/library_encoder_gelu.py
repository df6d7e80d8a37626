"""The library's encoder with tanh GELU, its own final norm under two names, batch second inside, no dropout."""

import torch
from torch import nn
from torch.nn import functional as F


def gelu(x):
    return F.gelu(x, approximate="tanh")


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.head = nn.Linear(d_model, vocab)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d_model, n_heads, d_ff, 0.0, gelu, norm_first=True),
            n_layers,
            norm=nn.LayerNorm(d_model),
            enable_nested_tensor=False,
        )
        self.ln = self.encoder.norm
        self.pos_emb = nn.Embedding(max_len, d_model)
        self.tok_emb = nn.Embedding(vocab, d_model)
        self.register_buffer("hidden", torch.ones(max_len, max_len, dtype=torch.bool).triu(1))

    @property
    def max_len(self):
        return self.pos_emb.num_embeddings

    def forward(self, idx):
        B, T = idx.shape
        if T > self.max_len:
            raise ValueError(f"{T} > {self.max_len}")
        x = self.tok_emb(idx.T) + self.pos_emb.weight[:T, None]
        return self.head(self.encoder(x, self.hidden[:T, :T])).transpose(0, 1)
