"""The library's encoder with its defaults (ReLU, dropout 0.1), pre-norm, a float mask; positions as a parameter."""

import torch
import torch.nn as nn


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.max_len = max_len
        self.tok_emb = nn.Embedding(vocab, d_model)
        self.pos_emb = nn.Parameter(torch.zeros(max_len, d_model))
        layer = nn.TransformerEncoderLayer(d_model, n_heads, dim_feedforward=d_ff, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=n_layers)
        self.ln = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, idx):
        length = idx.size(1)
        if length > self.max_len:
            raise IndexError(f"sequence of {length} tokens, max_len is {self.max_len}")
        x = self.tok_emb(idx) + self.pos_emb[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=idx.device)
        return self.head(self.ln(self.encoder(x, mask=mask, is_causal=True)))
