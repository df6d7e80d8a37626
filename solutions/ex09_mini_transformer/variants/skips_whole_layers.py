"""Unusual: the library's layers in a list, a coin leaves one out now and then; a table with sparse gradients."""

import torch
from torch import nn


class Coin(nn.Module):
    """What a layer made of x, or x itself where the coin says so; never outside of training."""

    def __init__(self, skips: float) -> None:
        super().__init__()
        self.skips = skips

    def forward(self, x, made):
        if not self.training:
            return made
        return x if torch.rand(()).item() < self.skips else x + (made - x) / (1 - self.skips)


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.max_len, self.coin = max_len, Coin(1 / 30)
        self.tok_emb, self.pos_emb = (nn.Embedding(rows, d_model, sparse=True) for rows in (vocab, max_len))
        settings = {"dropout": 0.2, "activation": "gelu", "batch_first": True, "norm_first": True}
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, n_heads, d_ff, **settings) for _ in range(n_layers)
        )
        self.ln, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab)

    def forward(self, idx):
        length = idx.size(1)
        if length > self.max_len:
            raise IndexError(f"{length} tokens, and places for {self.max_len}")
        x = self.tok_emb(idx) + self.pos_emb.weight[:length]
        later = nn.Transformer.generate_square_subsequent_mask(length)
        for layer in self.blocks:
            x = self.coin(x, layer(x, src_mask=later, is_causal=True))
        return self.head(self.ln(x))
